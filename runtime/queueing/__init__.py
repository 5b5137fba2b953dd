"""How fast a cluster will be, from how long its parts take: stations, links and times; nothing of
nets or messages.

efficiency        hardware efficiency HE(g) in closed form, for each way in which gradients travel
mean_values       closed networks of queues, by mean value analysis: exact, unequal devices included
event_simulation  the same event by event, with any spread of times and groups that wait for their slowest
work_graph        a cycle of work as a graph of pieces that wait for one another
rate_sharing      what each of several transfers gets of a link
all_reduce        sums over members in closed form: along a tree, round a ring
estimates         means of simulated times with their confidence

See docs/decisions/tuning.md.
"""

"""How fast a cluster will be, from how long its parts take: stations, links and times; nothing of
nets or messages.

efficiency        Hardware efficiency in closed form
mean_values       Closed networks of queues by mean value analysis
event_simulation  A cluster event by event
work_graph        A cycle of work as a graph
rate_sharing      Transfers that share ways
all_reduce        How long members with one interface each take to sum arrays and to have the sum
                  everywhere, and which way is faster
estimates         Means of what a simulation measured, with their confidence

See docs/decisions/tuning.md.
"""

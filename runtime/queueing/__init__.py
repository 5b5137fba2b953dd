"""Predictions of how fast a cluster will be, from the times of its parts: stations, links and
service times. This package knows nothing of nets or messages.

efficiency        Hardware efficiency in closed form
mean_values       Mean value analysis of closed networks of queues
event_simulation  A simulation of a cluster, event by event
work_graph        A cycle of work as a graph
rate_sharing      Transfers that share ways
all_reduce        All-reduce times: how long members with one network interface each take to sum
                  arrays and to have the sum everywhere, and which way is faster
estimates         Means of simulated measurements with their confidence intervals
lane_window       The window of a lane: how many bytes may be under way on it

See docs/decisions/tuning.md.
"""

"""An actor, the process it lives in, and the way to its peers.

actor         tell, ask, inbox, reply_to, on_<message>; its life
router  routes  where each actor lives, which asks are open, into whose inbox a message goes
cell          an actor's inbox and its two tasks
node          the actors of one process
inspection  snapshot    what somebody who looks at a run asks of it; what the actors do now
conversation  which message may come when, as a table
metrics       counters, gauges, histograms, and what shows them
rejections    tells of rejected messages at a bounded rate
message_metrics  actor_metrics    what is counted of messages; what an actor measures itself
actor_state  reserved_names    what the runtime keeps of an actor; names that actors may not take
service  station_metrics    actors as stations of a queueing network: inbox, service, compute
"""

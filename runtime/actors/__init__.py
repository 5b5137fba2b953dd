"""An actor, the process it lives in, and the way to its peers.

actor            The actor: five words (tell, ask, inbox, reply_to, on_<message>) and its whole life
                 on one screen
router           The way from one actor to another
routes           What the router keeps: where actors live, and the questions that are open
cell             An actor in its process
node             A node: the actors of one process
inspection       What somebody who looks at a run asks of it
snapshot         What the actors of a process do now, as plain data
conversation     Which message may come when
metrics          Metrics of one process and the pages that show them
rejections       Tells of rejected messages at a bounded rate
message_metrics  The runtime's own metrics of the actors of one process
actor_metrics    What an actor measures: its metrics, and the phases of its work
service          How messages of one kind fared at one actor: sums that its cell adds to
station_metrics  Each actor as a station of a queueing network
actor_state      What the runtime keeps of an actor, apart from what the actor keeps of its own work
reserved_names   The names that the runtime uses on every actor
handlers         The handlers of a class of actors

See docs/decisions/messages.md.
"""

"""An actor, the process it lives in, and the way to its peers.

actor            The actor: the base class of all actors
router           The way from one actor to another
routes           The records of the router: where actors live, and the open asks
cell             An actor in its process
node             A node: the actors of one process
inspection       Messages with which a client inspects a live run
snapshot         A snapshot of the actors of a process, as plain data
conversation     Conversations: the table of which message may come when, and the state of each
                 subject of it
metrics          Metrics of one process and the pages that show them
rejections       Logging of rejected messages at a bounded rate, so that a peer that sends garbage
                 cannot fill the disk with log lines
message_metrics  The runtime's own metrics of the actors of one process
actor_metrics    The measurements and reports of an actor
service          Statistics of the messages of one kind at one actor: sums that its cell adds to
station_metrics  Metrics that describe each actor as a station of a queueing network
actor_state      The runtime's own state of an actor, apart from the state that the actor keeps for
                 its work
reserved_names   The names that the runtime uses on every actor
handlers         The handlers of an actor class
actor_work       The array work of an actor, and the memory and the folder that the runtime gives to
                 it
placing          An actor gets its place in a host, and prepares
actor_children   The other actors that an actor starts, and ends, while the run goes on
host_copies      The copies that a process makes of messages whose arrays lie on a device, for
                 receivers that do not read it
event_fields     The fields of an event, checked where the actor emits it, so that a mistake has its
                 line
misuse           Errors for wrong sends, wrong asks and wrong answers of actors, in words
actor_requests   The messages that every actor handles, until its class handles them in its own way
device_sharing   The memory on a device that a process shares with peers on the same device
asked            An ask at its receiver: its envelope notices if it is dropped without an answer
guarded          The end of an actor and of its tasks: an error of a task fails the actor
refusals         The refusals of an actor

See docs/decisions/messages.md.
"""

"""The roads between actors.

interface                    what every road promises
inproc  network_model   inside one process; how long messages travel in a simulated network
sockets                 between processes: envelopes over sockets, arrays in shared memory
dialed                  one end dials, and both speak on that connection: to who listens nowhere
ports                   what a kind of sockets is:
unix  unix_listener     within a host, on the event loop: connecting, and being connected to
stream  incoming  backlog   whole messages; bytes that came; bytes that wait for room
zeromq  frame_parts           between hosts; large frames in parts
zmtp                    what ZeroMQ needs around it: a watch by the event loop, a door that lets in few strangers
links  shared_arena           credits owed and due; memory shared and returned
keys                    what lets a process into the links of its run
host_identity                    who is on the same host
faults                  messages lost, doubled, overtaken or late on purpose

See docs/decisions/messages.md.
"""

from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

"""The roads between actors.

base                    what every road promises
inproc  network_model   inside one process; how long messages travel in a simulated network
sockets                 between processes: envelopes over sockets, arrays in shared memory
ports                   what a kind of sockets is:
unix  stream  zeromq    within a host, on the event loop; between hosts
links  shared  parts    credits owed and due; memory shared and returned; large frames in parts
keys                    what lets a process into the links of its run
host                    who is on the same host
faults                  messages lost, doubled, overtaken or late on purpose
"""

from runtime.transport.base import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

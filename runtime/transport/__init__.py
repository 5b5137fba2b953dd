"""The roads between actors.

interface      What every transport promises, whatever road it takes
inproc         The road inside one operating-system process
network_model  The network of a simulated cluster
sockets        The road between processes
dialed         A road of which one end dials and the other answers on the same connection
ports          Sockets, whatever they are made of
unix           Sockets between the processes of one host
stream         A connected stream socket on the event loop itself
backlog        What a socket of a stream did not take at once
zeromq         Sockets between hosts: ZeroMQ
frame_parts    Frames that are too large to travel as one
zmtp/          What ZeroMQ's sockets need around them
links          The accounts of two processes over sockets
shared_arena   What one process shares with its peers on this host
keys           What lets a process into the links of its run, and tells it who else may come in
host_identity  Which host this process is on
incoming       The messages of a byte stream
unix_listener  The end of a Unix socket that peers connect to

See docs/decisions/messages.md.
"""

from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

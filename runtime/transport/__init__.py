"""Transports: the ways on which messages travel between actors.

interface      The promises of every transport
inproc         The transport inside one operating-system process
network_model  The network of a simulated cluster
sockets        The transport between processes
dialed         A transport over one connection that one end dials and both ends use
ports          The common interface of sockets
unix           Sockets between processes of one host
stream         A connected stream socket, read and written by the event loop itself
backlog        The backlog of a stream socket: memory that the socket did not take at once
zeromq         Sockets between hosts: ZeroMQ
frame_parts    Frames that are too large to travel in one piece
zmtp/          Helpers around ZeroMQ's sockets
links          The credit accounts between two processes over sockets
shared_arena   The memory that one process shares with its peers on this host and on its device
keys           The keys of a process
host_identity  The identity of the host of this process
incoming       The messages in a byte stream
unix_listener  The listening end of Unix sockets
socket_files   Socket files: the path of a Unix socket, however long it is

See docs/decisions/messages.md.
"""

from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

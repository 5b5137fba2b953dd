"""What ZeroMQ's sockets need around them: an event loop that reads them, and a door that lets in
few strangers.

watched    A socket whose messages the event loop reads from its own watch of a descriptor, a few in
           each turn
strangers  The connections of a process whose peers have not proven yet who they are
turnstile  A listening TCP socket from which ZeroMQ accepts one connection each time it is told to
door       Where strangers connect to a listener of ZeroMQ's

See docs/decisions/security.md.
"""

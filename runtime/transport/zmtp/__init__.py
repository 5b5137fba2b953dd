"""Helpers around ZeroMQ's sockets: reading them in the event loop, and limiting connections whose
peers have not proven their identity.

watched    A socket that is read by the event loop through a descriptor, a few messages in each turn
strangers  Strangers: the connections of a process whose peers have not proven their identity yet
turnstile  A listening TCP socket from which ZeroMQ accepts one connection per call
door       The door of a ZeroMQ listener

See docs/decisions/security.md.
"""

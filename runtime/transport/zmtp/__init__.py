"""Helpers around ZeroMQ's sockets: reading them in the event loop, and limiting connections whose
peers have not proven their identity.

See docs/decisions/security.md.
"""

"""Transports: the ways on which messages travel between actors.

See docs/decisions/messages.md.
"""

from runtime.transport.interface import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

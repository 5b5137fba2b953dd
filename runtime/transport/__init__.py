"""Roads between processes: `base` says what each promises; `inproc` and `sockets` (over `unix` or `zeromq`) do it."""

from runtime.transport.base import Announced, Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Announced", "Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

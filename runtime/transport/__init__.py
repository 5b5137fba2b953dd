"""Roads between processes: `base` says what each promises; `inproc` and `sockets` (over `unix` or `zeromq`) do it."""

from runtime.transport.base import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

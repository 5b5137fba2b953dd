"""Roads between processes: `base` says what each promises, `inproc` and `zeromq` are two of them."""

from runtime.transport.base import Deliver, Endpoints, Limits, Reject, Release, Transport

__all__ = ["Deliver", "Endpoints", "Limits", "Reject", "Release", "Transport"]

"""How messages of one kind fared at one actor: sums that its cell adds to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from runtime.messages.message import Envelope


@dataclass(slots=True)
class Service:
    """How many were handled, seconds that they waited in the inbox, and seconds that their handler
    took, with what that itself waited for."""

    name: str  # of the kind
    handle: Callable[[Any, Envelope], Awaitable[None]]  # the actor's on_<message>
    handled: int = 0
    waited: float = 0.0
    seconds: float = 0.0

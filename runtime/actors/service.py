"""Statistics of the messages of one kind at one actor: sums that its cell adds to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from runtime.messages.message import Envelope


@dataclass(slots=True)
class Service:
    """The messages of one kind that were handled, the seconds that they waited in the inbox, and
    the seconds that their handler took. The handler's seconds include its own waits."""

    name: str  # of the message kind
    handle: Callable[[Any, Envelope], Awaitable[Any]]  # the actor's on_<message>
    handled: int = 0
    waited: float = 0.0
    seconds: float = 0.0

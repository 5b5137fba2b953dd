"""The process of an actor, as the actor sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from runtime.actors.actor_metrics import Gauges
from runtime.compute.compute import Compute
from runtime.messages.message import Array, Message

R = TypeVar("R", bound=Message)


class Host(Gauges, Protocol):
    """What an actor needs of the process it lives in; a node is one."""

    compute: Compute
    directory: Path
    on_event: Callable[[str, str, dict[str, Any]], None]

    async def send(
        self, sender: str, to: str, message: Message, *, step: int = -1, answers: int = 0
    ) -> None:
        """See Actor.tell and Actor.reply."""

    async def ask(
        self,
        sender: str,
        to: str,
        message: Message,
        answer: type[R],
        *,
        step: int,
        timeout: float | None,
    ) -> R:
        """See Actor.ask."""
        ...

    def memory(self, size: int) -> Array:
        """See Actor.memory."""
        ...

    def finished(self, name: str) -> None:
        """See Actor.finish."""

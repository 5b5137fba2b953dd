"""What is told of a run while it goes on."""

from __future__ import annotations

from typing import Any, Protocol

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import ConvoyError


class Watcher(Protocol):
    """Who wants to know what happens in a run: the journal, the live table."""

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """An actor or the supervisor reports something."""

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """A process lives and says what its actors do."""

    def failed(self, error: ConvoyError) -> None:
        """The run ends because of this; told at once, before anything is stopped."""

"""Where the actors of a run live. `Run` is the same whatever its house is.

ProcessHouse   a process each, or some together        processes are started, watched and ended
LoopHouse      the event loop that runs the script     in real time
VirtualHouse   one event loop on virtual time          as a model of a cluster
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.operators.operator_key import OperatorKeys
from runtime.cluster.watcher import Watcher
from runtime.config.sections import ClusterConfig
from runtime.errors import ConvoyError
from runtime.messages.message import Message
from runtime.plan.topology import Placement
from runtime.report.rundir import RunDirectory
from runtime.runs.continuing import Scaling, not_scaled
from runtime.runs.healing import Healing
from runtime.transport import Limits

R = TypeVar("R", bound=Message)


class Watchers:
    """A watcher that tells others."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: Watcher) -> None:
        """It hears what comes from now on."""
        self._watchers.append(watcher)

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """See Watcher."""
        for watcher in self._watchers:
            watcher.event(actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """See Watcher."""
        for watcher in self._watchers:
            watcher.beat(process, heartbeat)

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""
        for watcher in self._watchers:
            watcher.failed(error)


@dataclass(frozen=True)
class ExecutionContext:
    """What a house is built on: who is to live there, as the configuration says; where it writes,
    whom it tells. `restarts`: runs of this `up` that died one after another before it. `scale`
    makes another run of it, which goes on with other workers or on other machines. `cards`: what
    operators elsewhere come in by."""

    placement: Placement
    config: ClusterConfig
    directory: RunDirectory
    watcher: Watcher
    scale: Scaling = not_scaled
    restarts: int = 0
    cards: OperatorKeys = field(default_factory=OperatorKeys)

    @property
    def limits(self) -> Limits:
        """What may be under way."""
        links = self.config.links
        silence = self.config.liveness.link_seconds
        return Limits(links.credit_bytes, links.max_message_bytes, link_seconds=silence)


class Execution(ABC):
    """Made on the event loop of its run; opened, supervised and closed, in this order. `began` is
    set when every actor has begun. `summary` is a line for the person at a good end.
    `asked_to_end`: by somebody outside, so that no other run follows it; `ended_now`: before its
    lead had ended. `healing`: what is left of it in memory for the next, where one may follow."""

    began: asyncio.Event
    asked_to_end = ended_now = False
    metrics_url = ""
    report_url = ""
    operators_at = ""
    healing: Healing | None = None
    summary = ""

    @abstractmethod
    async def open(self) -> None:
        """Get everything that can be refused. ConvoyError says what was."""

    @abstractmethod
    async def supervise(self) -> ConvoyError | None:
        """Run the actors until the lead has ended or one has failed, then end the others; the error
        that ended the run, if any, which the watcher was told at once."""

    @abstractmethod
    async def close(self) -> None:
        """Let everything go."""

    @abstractmethod
    async def tell(self, actor: str, message: Message) -> None:
        """See Actor.tell."""

    @abstractmethod
    async def ask(self, actor: str, message: Message, answer: type[R], timeout: float | None) -> R:
        """See Actor.ask."""

    @abstractmethod
    async def wind_down(self, reason: str) -> None:
        """Ask the lead actor to bring the run to a good end; before it runs there is nothing to
        save: end now."""

    @abstractmethod
    async def save(self) -> None:
        """Ask the lead actor to write a checkpoint and go on."""

    @abstractmethod
    def end_now(self) -> None:
        """End the run without waiting for anything."""

    @abstractmethod
    def statuses(self) -> dict[str, dict[str, Any]]:
        """Actor -> what it does, as far as this is known, and its process."""

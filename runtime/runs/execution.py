"""Executions: the places where the actors of a run live. `Run` is the same for all of them.

ProcessExecution  in processes, one each or some together  processes are started, watched, ended
LoopExecution     on the event loop of the script          in real time
VirtualExecution  on one event loop, on virtual time       as a model of a cluster
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.operators.operator_key import OperatorKeys
from runtime.cluster.watcher import Watcher
from runtime.config.sections import ClusterConfig
from runtime.errors import ConvoyError
from runtime.messages.message import Array, Message
from runtime.plan.topology import Placement
from runtime.report.rundir import RunDirectory
from runtime.runs.continuing import Scaling, not_scaled
from runtime.runs.healing import Healing
from runtime.transport import Limits

R = TypeVar("R")


class Watchers:
    """A watcher that passes everything on to other watchers."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: Watcher) -> None:
        """Add a watcher for everything that comes from now on."""
        self._watchers.append(watcher)

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Pass an event on."""
        for watcher in self._watchers:
            watcher.event(actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Pass a heartbeat on."""
        for watcher in self._watchers:
            watcher.beat(process, heartbeat)

    def failed(self, error: ConvoyError) -> None:
        """Pass the run's error on."""
        for watcher in self._watchers:
            watcher.failed(error)


@dataclass(frozen=True)
class ExecutionContext:
    """Everything that an execution needs.

    - `placement`, `config`: the actors and their processes, as configured.
    - `directory`, `watcher`: receive what happens.
    - `scale`: makes another run that continues with other workers or on other machines.
    - `restarts`: the number of runs of this `up` that died one after another before this one.
    - `cards`: the keys with which operators on other hosts connect.
    """

    placement: Placement
    config: ClusterConfig
    directory: RunDirectory
    watcher: Watcher
    scale: Scaling = not_scaled
    restarts: int = 0
    cards: OperatorKeys = field(default_factory=OperatorKeys)

    @property
    def limits(self) -> Limits:
        """The limits of bytes under way."""
        links = self.config.links
        silence = self.config.liveness.link_seconds
        return Limits(links.credit_bytes, links.max_message_bytes, link_seconds=silence)


class Execution(ABC):
    """The life of a run's actors. Made on the event loop of its run; then opened, supervised and
    closed, in this order.

    - `began`: set when every actor has begun.
    - `asked_to_end`: a client or command asked for the end, so no other run follows.
    - `ended_now`: the run was ended before its lead had ended.
    - `healing`: the state that is left in memory for the next run, if one may follow.
    - `summary`: a line for the user at a good end.
    """

    began: asyncio.Event
    asked_to_end = ended_now = False
    metrics_url = ""
    report_url = ""
    operators_at = ""
    healing: Healing | None = None
    summary = ""

    @property
    @abstractmethod
    def placement(self) -> Placement:
        """The present actors of the run and their processes."""

    @abstractmethod
    async def open(self) -> None:
        """Get every resource that can be refused. Raises ConvoyError with the reason of a
        refusal."""

    @abstractmethod
    async def supervise(self) -> ConvoyError | None:
        """Run the actors until the lead has ended or one has failed, then end the others.

        Returns the error that ended the run, or None. The watcher has received the error before.
        """

    @abstractmethod
    async def close(self) -> None:
        """Release everything."""

    @abstractmethod
    async def tell(self, actor: str, message: Message) -> None:
        """Send a message to an actor; see Actor.tell."""

    @abstractmethod
    async def ask(self, actor: str, message: Message, answer: type[R], timeout: float | None) -> R:
        """Ask an actor and wait for its answer; see Actor.ask."""

    def memory(self, size: int) -> Array:
        """Return memory for arrays of messages; see Actor.memory."""
        return np.empty(size, np.uint8)

    @abstractmethod
    async def wind_down(self, reason: str) -> None:
        """Ask the lead actor to end the run well. If the lead has not begun, there is nothing to
        save, and the run ends at once."""

    @abstractmethod
    async def save(self) -> None:
        """Ask the lead actor to write a checkpoint and continue."""

    @abstractmethod
    def end_now(self) -> None:
        """End the run at once."""

    @abstractmethod
    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return for each actor what it does, as far as it is known, and its process."""

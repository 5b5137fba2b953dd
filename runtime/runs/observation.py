"""Observation of a run by its program while the run goes on: the program's observer receives how
long work takes, and returns events.

A program offers `observer(placement, config, gauge)`, which returns an Observer, or None for a run
that it does not observe. A program without `observer` pays nothing.

    processes         heartbeats carry the sums, about once a second; the observer works in a thread
                      of `up`
    one event loop    the sums are read when a piece of work is done and a second has passed; the
                      observer works in a thread next to the loop
    virtual time      the same in virtual seconds, but the observer works at once, so that runs
                      repeat exactly
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Protocol

from runtime.actors.metrics import Gauge
from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.warnings import WARNING
from runtime.compute.compute import Compute
from runtime.compute.work_sums import Sums
from runtime.errors import ConvoyError
from runtime.plan.program import program_here
from runtime.plan.topology import SUPERVISOR
from runtime.runs.execution import ExecutionContext
from runtime.user_code import told

Told = Iterable[tuple[str, dict[str, Any]]]  # events: name, fields
# (name, help, **labels), see Measured.gauge; shown on the metrics page of `up`
MakeGauge = Callable[..., Gauge]
PERIOD = 1.0  # seconds between two calls of the observer
MANY = 1000  # events and sums that are enough for a call of the observer, even without any work


class Observer(Protocol):
    """The observer that a program's `observer` returns.

    Its methods are called one at a time, perhaps in a thread. The events that they return are
    emitted in the name of the supervisor. The live table shows the field `text` of the event
    `prediction`.
    """

    hears: Collection[str]  # names of the events that it receives

    def worked(self, sums: Sums, now: float) -> Told:
        """Receive how long the work of some actors has taken since the start of the run. `now` is
        loop time in seconds."""

    def event(self, actor: str, event: str, fields: dict[str, Any], now: float) -> Told:
        """Receive an event of an actor, one of those that the observer `hears`."""


class Observation:
    """A watcher that runs the program's observer on `compute` and reports the events that it
    returns.

    An error of the observer ends no run: it is reported as a warning, and the observer is not
    called again. The observer is made on `compute` too, when there first is work to report. So the
    first iteration need not wait for its imports.
    """

    def __init__(
        self,
        site: ExecutionContext,
        gauge: MakeGauge,
        compute: Compute,
        tell: Callable[[str, str, dict[str, Any]], None],
    ) -> None:
        self._site = site
        self._gauge = gauge
        self._compute = compute
        self._tell = tell
        self._observer: Observer | None = None
        self._is_made = False
        self._loop = asyncio.get_running_loop()
        self._heard: list[Callable[[Observer], Told]] = []
        self._task: asyncio.Task[None] | None = None
        self._due = self._loop.time() + PERIOD
        self._over = not site.config.run.observe

    def __repr__(self) -> str:
        return f"<observation by {self._observer!r}, {len(self._heard)} reports not yet passed on>"

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Keep an event for the observer."""
        if not self._over and (self._observer is None or event in self._observer.hears):
            self._heard.append(partial(_event, actor, event, dict(fields), self._loop.time()))
            if len(self._heard) >= MANY:
                self._hurry()

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Keep the sums of work in a heartbeat for the observer."""
        if heartbeat.work:
            self.worked(heartbeat.work)

    def failed(self, error: ConvoyError) -> None:
        """Do nothing: the observer does not receive errors."""

    @property
    def due(self) -> bool:
        """Whether the observer was not called for PERIOD seconds."""
        return self._loop.time() >= self._due and not self._over

    def worked(self, sums: Sums) -> None:
        """Keep sums of work for the observer. They are passed on now or with what comes next."""
        if not self._over:
            self._heard.append(partial(_worked, sums, self._loop.time()))
        if self.due:
            self._hurry()

    async def close(self) -> None:
        """Stop calling the observer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._compute.close()

    def _hurry(self) -> None:
        if self._task is None or self._task.done():
            self._due = self._loop.time() + PERIOD
            self._task = self._loop.create_task(self._observe(), name="observation")

    async def _observe(self) -> None:
        heard = self._heard
        self._heard = []
        try:
            told = await self._compute.run(SUPERVISOR, "observe", self._tell_all, heard)
        except Exception as error:  # noqa: BLE001  # any error: the run needs no observer
            self._over = True
            told = [(WARNING, {"text": _in_words(error)})]
        if self._over:
            self._heard.clear()
        for name, fields in told:
            self._tell(SUPERVISOR, name, fields)

    def _tell_all(
        self, heard: Iterable[Callable[[Observer], Told]]
    ) -> list[tuple[str, dict[str, Any]]]:
        """Make the observer if it does not exist yet, and pass everything on to it. Called in the
        thread."""
        if not self._is_made:
            self._is_made = True
            placement = self._site.placement
            program = program_here(placement.topology.program)
            if program is not None:
                self._observer = program.observer(placement, self._site.config, self._gauge)
        if self._observer is None:
            self._over = True
            return []
        observer = self._observer
        return [said for each in heard for said in each(observer)]


def _event(actor: str, event: str, fields: dict[str, Any], now: float, observer: Observer) -> Told:
    return observer.event(actor, event, fields, now) if event in observer.hears else ()


def _worked(sums: Sums, now: float, observer: Observer) -> Told:
    return observer.worked(sums, now)


def _in_words(error: Exception) -> str:
    return f"the run goes on without its observer: {told(error)}"

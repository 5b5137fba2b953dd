"""What a program makes of its run while it goes on: its observer hears how long work takes, and
says something of it.

A program offers `observer(placement, config, gauge)`, which makes an Observer, or None if it has
nothing to say of this run. A program without it pays nothing.

    processes         heartbeats carry the sums, about once a second; the observer works in a
                      thread of `up`
    one event loop    the sums are asked for when a piece of work is done and a second has passed;
                      the observer works in a thread beside the loop
    virtual time      the same, in virtual seconds; the observer works at once, so that runs repeat
                      themselves
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

Told = Iterable[tuple[str, dict[str, Any]]]  # events: name, fields
# (name, help, **labels): see Measured.gauge; served on the page of `up`
MakeGauge = Callable[..., Gauge]
PERIOD = 1.0  # seconds from one hearing to the next
MANY = 1000  # things to hear: enough, also where no work is heard of


class Observer(Protocol):
    """What a program's `observer` makes. Its methods are called one at a time, perhaps in a thread.
    What they return is emitted in the name of the supervisor; of the event `prediction` the live
    table shows the field `text`."""

    hears: Collection[str]  # events, by name

    def worked(self, sums: Sums, now: float) -> Told:
        """How long work has taken since the beginning, of some actors; `now` is loop time in
        seconds."""

    def event(self, actor: str, event: str, fields: dict[str, Any], now: float) -> Told:
        """An actor has reported one of the events that the observer hears."""


class Observation:
    """A watcher that lets the program's observer work on `compute` and tells what it says. What it
    raises ends no run: it is told as a warning, and the observer hears nothing more.

    It is made there too, when work is first heard of: the first iteration need not wait until it is
    imported.
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
        return f"<observation by {self._observer!r}, {len(self._heard)} things not yet told it>"

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """See Watcher."""
        if not self._over and (self._observer is None or event in self._observer.hears):
            self._heard.append(partial(_event, actor, event, dict(fields), self._loop.time()))
            if len(self._heard) >= MANY:
                self._hurry()

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """See Watcher."""
        if heartbeat.work:
            self.worked(heartbeat.work)

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""

    @property
    def due(self) -> bool:
        """Has the observer heard nothing for a while?"""
        return self._loop.time() >= self._due and not self._over

    def worked(self, sums: Sums) -> None:
        """How long work has taken: the observer hears of it, now or with what comes next."""
        if not self._over:
            self._heard.append(partial(_worked, sums, self._loop.time()))
        if self.due:
            self._hurry()

    async def close(self) -> None:
        """The observer hears nothing more."""
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
        except Exception as error:  # noqa: BLE001  # whatever it is: a run needs no observer
            self._over = True
            told = [(WARNING, {"text": _in_words(error)})]
        if self._over:
            self._heard.clear()
        for name, fields in told:
            self._tell(SUPERVISOR, name, fields)

    def _tell_all(
        self, heard: Iterable[Callable[[Observer], Told]]
    ) -> list[tuple[str, dict[str, Any]]]:
        """In the thread: the observer, which is made if it is not there yet, hears of it all."""
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
    text = str(error) if isinstance(error, ConvoyError) else f"{type(error).__name__}: {error}"
    return f"the run goes on without its observer: {text}"

"""A run as an object: start it, receive its events, talk to its actors, end it. `up` and scripts
use nothing else.

    made -> start -> (began) -> over        one task does it all, from the first socket to the last
                                            file closed

`execution` defines where its actors live.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import BaseModel

from runtime.cluster.launcher import Early
from runtime.cluster.operators.operator_key import OperatorKeys
from runtime.cluster.warnings import WARNING
from runtime.config.recorded import recorded
from runtime.config.sections import ClusterConfig
from runtime.errors import ActorStopped, ConfigError, ConvoyError
from runtime.machine.versions import versions
from runtime.messages.message import Array, Message
from runtime.plan.topology import SUPERVISOR, Placement
from runtime.reasons import in_words
from runtime.records.lock_file import RUNNING
from runtime.report.console import RunConsole
from runtime.report.event_stream import Event, Events
from runtime.report.rundir import RunDirectory
from runtime.runs.continuing import Scaling, not_scaled
from runtime.runs.execution import Execution, ExecutionContext, Watchers
from runtime.runs.healing import Healing
from runtime.runs.making import directory_of, execution_of, loop_factory_of
from runtime.runs.outside import Wishes, locked
from runtime.runs.tracking import Tracking
from runtime.simulation.clock import VirtualTimeLoop
from runtime.suggest import hint

R = TypeVar("R")
ENDED = "ended"  # last events of journals; STOPPED: ended before the lead had ended
STOPPED = "stopped"


class Run:
    """One run of a placement. `async with run:` starts it. Leaving the block waits for its end;
    leaving it by an exception ends it at once.

    - `record`: the configuration that config.toml gets, if it is not `config`.
    - `console`: makes the console that shows the run.
    - `early`: processes that were started early and may be used.
    - `directory`: its run directory, if it has one already.
    - `scale`: makes another run of it.
    - `restarts`: the number of runs that it follows.
    - `cards`: the operators' keys of the runs before it.
    - `shares`: this process shares memory with the actors of this machine.
    - `loop_factory`: makes an event loop with its kind of time.

    The ConvoyError that ends a run is raised once, by the first of `events`, `result`, or leaving
    the block.
    """

    def __init__(
        self,
        placement: Placement,
        config: ClusterConfig,
        *,
        options: BaseModel | None = None,
        record: ClusterConfig | None = None,
        here: bool = False,
        console: Callable[[], RunConsole] | None = None,
        early: Early | None = None,
        directory: RunDirectory | None = None,
        scale: Scaling = not_scaled,
        restarts: int = 0,
        cards: OperatorKeys | None = None,
        shares: bool = False,
    ) -> None:
        self._planned = placement
        self._restarts = restarts
        self._cards = cards or OperatorKeys()
        self._config = config
        self._options = options
        self._record = config if record is None else record
        self._console = console
        self._build = execution_of(placement, config, here=here, early=early, shares=shares)
        self._virtual = config.simulation.clock == "virtual"
        self.loop_factory = loop_factory_of(config)
        self._given = directory
        self._scale = scale
        self._held = ExitStack()  # the lock of a run that makes its own directory
        self._directory: RunDirectory | None = None
        self._house: Execution | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: ConvoyError | None = None
        self._raised = self._had_begun = False

    def __repr__(self) -> str:
        state = "not started" if self._task is None else "over" if self._task.done() else "running"
        return f"<run of {len(self.placement.topology.actors)} actors, {state}>"

    # -- its life

    async def start(self) -> Self:
        """Make the run directory and start everything, for callers without `async with`.

        An error that keeps the run from starting is the run's error. Raises ConvoyError if it was
        started before, or if this event loop has another kind of time.
        """
        if self._task is not None:
            raise ConvoyError("this run was started before; launch another")
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualTimeLoop) is not self._virtual:
            kinds = ("virtual", "real") if self._virtual else ("real", "virtual")
            text = "simulation.clock is '{}', but this event loop has {} time".format(*kinds)
            raise ConvoyError(
                f"{text}: use runtime.run(...), or asyncio.Runner(loop_factory=run.loop_factory)"
            )
        began_at = loop.time()
        self._events = Events(lambda: loop.time() - began_at)
        self._opened = asyncio.Event()
        self._directory = self._given or self._locked_directory()
        self._task = loop.create_task(self._live(self._directory), name="run")
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            await self.end_now()
            raise
        return self

    def _locked_directory(self) -> RunDirectory:
        """Make the directory of a run that no `up` has made one for. Such a run holds the lock
        itself."""
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(lambda: self._directory and self._directory.on_trouble(text))

        lock = self._held.enter_context(locked(self._config, tell))
        try:
            made = directory_of(self._config, self.placement.topology, loop.time, up=lock)
        except BaseException:
            self._held.close()
            raise
        if lock is not None:
            lock.says(RUNNING, made.path.name)
        self._held.enter_context(Wishes(lock, self))
        return made

    @property
    def placement(self) -> Placement:
        """The actors of the run and their processes, at present."""
        return self._planned if self._house is None else self._house.placement

    async def _live(self, directory: RunDirectory) -> None:
        consoles = [] if self._console is None else [self._console()]
        clock = asyncio.get_running_loop().time
        began = asyncio.get_running_loop().time()
        for console in consoles:
            console.expect(self.placement.process_of(), lambda: clock() - began)
        watcher = Watchers(directory, self._events, *consoles)
        tracking: Tracking | None = None
        seen_through = False
        spoken = Watchers(self._events, *consoles)
        directory.on_trouble = lambda text: spoken.event(SUPERVISOR, WARNING, {"text": text})
        try:
            if directory.clock_behind:
                watcher.event(SUPERVISOR, WARNING, {"text": directory.clock_behind})
            text, told = recorded(self._record, self._options, directory.path)
            directory.write("config.toml", text)
            if told:
                watcher.event(SUPERVISOR, WARNING, {"text": told})
            directory.write("versions.json", dict(versions()))
            tracking = Tracking(self._config.run, directory)
            watcher.add(tracking)
            self._house = self._build(
                ExecutionContext(
                    self.placement,
                    self._config,
                    directory,
                    watcher,
                    self._scale,
                    self._restarts,
                    self._cards,
                )
            )
            await self._house.open()
            self._opened.set()
            self._error = await self._house.supervise()
            seen_through = True
        except (ConvoyError, OSError) as error:  # no process has started yet
            self._error = in_words(error, directory.path)
            watcher.failed(self._error)
        finally:
            try:
                if self._house is not None:
                    await self._house.close()
            except (ConvoyError, OSError) as error:
                if self._error is None:
                    self._error = in_words(error, directory.path)
                    watcher.failed(self._error)
            finally:
                self._events.end()
                self._opened.set()
                if (house := self._house) is not None:
                    self._had_begun = house.began.is_set()
                    house.began.set()  # end all waits for the beginning
                    # without a last event, the run counts as killed
                    if seen_through and self._error is None:
                        cut = house.ended_now or not self._had_begun
                        directory.event(SUPERVISOR, STOPPED if cut else ENDED, {})
                if tracking is not None:
                    await tracking.close()
                directory.close()
                self._held.close()
                for console in consoles:
                    console.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            await self.end_now()
            return
        try:
            await self.ended()
        except asyncio.CancelledError:
            await self.end_now()
            raise
        if not self._raised:
            self._raise()

    # -- its events and state

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._started().path

    @property
    def metrics_url(self) -> str:
        """The address of the list of all metrics pages, in the form of Prometheus' http_sd; "" if
        there is none."""
        self._started()
        return self._house.metrics_url if self._house else ""

    @property
    def report_url(self) -> str:
        """The address of the run's report, a page for a browser while the run lives; "" if there is
        none."""
        self._started()
        return self._house.report_url if self._house else ""

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event from the run's first on, as it happens, until the run is over. Raises
        the error that ended the run."""
        self._started()
        async for event in self._events.stream():
            yield event
        await self.ended()
        self._raise()

    @property
    def has_begun(self) -> bool:
        """Whether every actor has begun; for a run that is over, whether they ever had."""
        over = self._task is not None and self._task.done()
        return self._had_begun if over else self._house is not None and self._house.began.is_set()

    @property
    def asked_to_end(self) -> bool:
        """Whether a client or command asked for the run's end."""
        return self._house is not None and self._house.asked_to_end

    @property
    def healing(self) -> Healing | None:
        """The state left in memory after a death, if another run may follow."""
        return self._house.healing if self._house else None

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return for each actor what its process last reported: role, doing, waiting_for, waited,
        handled, inbox, process."""
        self._started()
        return self._house.statuses() if self._house else {}

    @property
    def operators_at(self) -> str:
        """HOST:PORT at which operators on other hosts reach the run; "" if they cannot."""
        self._started()
        return self._house.operators_at if self._house else ""

    # -- talking to its actors

    async def tell(self, actor: str, message: Message) -> None:
        """Send a message to an actor, once all actors have begun. Raises the error that ended the
        run, or ActorStopped, if it is over."""
        house = await self._begun(actor)
        with self._telling_why():
            await house.tell(actor, message)

    async def ask(
        self, actor: str, message: Message, answer: type[R], *, timeout: float | None = None
    ) -> R:
        """Ask an actor, once all actors have begun; see Actor.ask. Raises like `tell` if the run
        ends before the answer."""
        house = await self._begun(actor)
        with self._telling_why():
            return await house.ask(actor, message, answer, timeout)

    def memory(self, size: int) -> Array:
        """Return a new uint8 array of `size` bytes for arrays of messages; see Actor.memory."""
        self._started()
        return np.empty(size, np.uint8) if self._house is None else self._house.memory(size)

    async def save(self) -> None:
        """Ask the lead actor to write a checkpoint and continue."""
        house = await self._begun(self.placement.topology.lead)
        await house.save()

    async def wind_down(self, reason: str = "asked to") -> None:
        """Ask the lead actor to end the run well. Before all actors have begun, the run ends at
        once."""
        self._started()
        if self._house is not None and not self._events.over:
            await self._house.wind_down(reason)

    async def end_now(self) -> None:
        """End the run at once, and wait until it has ended."""
        self._started()
        if self._house is not None and not self._events.over:
            self._house.end_now()
        await self.ended()

    # -- how it ended

    async def ended(self) -> ConvoyError | None:
        """Wait for the end. Return the error that ended the run, or None."""
        assert self._task is not None
        await asyncio.shield(self._task)
        return self._error

    @property
    def summary(self) -> str:
        """A line for the user at the end of the run; "" if there is none."""
        return self._house.summary if self._house else ""

    async def result(self) -> dict[str, Any]:
        """Wait for the end. Return the fields of the lead actor's last event, with which it sums up
        the run. Raises the error that ended the run."""
        self._started()
        await self.ended()
        self._raise()
        return self._events.last_fields(self.placement.topology.lead)

    # -- inside

    def _started(self) -> RunDirectory:
        if self._directory is None:
            raise ConvoyError("this run was not started: use `async with`, or await its start()")
        return self._directory

    async def _begun(self, actor: str) -> Execution:
        self._started()
        names = [spec.name for spec in self.placement.topology.actors]
        if actor not in names:
            raise ConfigError([f"no actor of this run is called '{actor}'{hint(actor, names)}"])
        await self._opened.wait()
        if self._house is not None:
            await self._house.began.wait()
        if self._house is None or self._events.over:
            await self.ended()
            self._raise()
            raise ActorStopped("the run is over")
        return self._house

    @contextmanager
    def _telling_why(self) -> Iterator[None]:
        """Replace ActorStopped by the error that ended the run."""
        try:
            yield
        except ActorStopped:
            self._raise()
            raise

    def _raise(self) -> None:
        if self._error is not None:
            self._raised = True
            raise self._error

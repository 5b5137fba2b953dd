"""Tracing a whole run: asks every process for a trace, reads their clocks, and merges the parts
into one file. `tracing` describes the trace.

Tracing is a watcher: it learns from the lead's heartbeats when the iterations are over. A process
that is stopped or stuck does not answer. It is left out and named; the others are traced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from runtime.actors.actor import Actor
from runtime.actors.inspection import ClockReading, GetClock, Looked, StartTrace, StopTrace, Traced
from runtime.cluster.lifecycle import Heartbeat, agent_of
from runtime.cluster.membership import Membership
from runtime.cluster.warnings import WARNING
from runtime.counting import counted
from runtime.errors import ConfigError, ConvoyError, ProgramFailed
from runtime.messages.message import Message
from runtime.plan.growth import SPAWNED
from runtime.plan.topology import SUPERVISOR, Placement
from runtime.reasons import reason
from runtime.regular import size_now
from runtime.tracing.merging import FILE, Clock, Merged, is_unmerged, merge, part_of, write_clocks
from runtime.transport import host_identity

READINGS = 8  # readings of a clock: the quickest counts
ANSWER_SECONDS = 2.0  # a process that is not stuck answers within this time
COPY_SECONDS = 10.0  # for the parts of other hosts to arrive here
LOOK_SECONDS = 0.1

R = TypeVar("R", bound=Message)
Tell = Callable[[str, str, dict[str, Any]], None]


class Tracing:
    """Traces a run. `voice` asks the agents of `placement`. `iterations` is the number of
    iterations that are traced from the start of the run without a request (0: none). `tell` is
    called with the events."""

    def __init__(
        self,
        voice: Actor,
        roll: Membership,
        placement: Placement,
        directory: Path,
        iterations: int,
        tell: Tell,
    ) -> None:
        self._voice = voice
        self._roll = roll
        self._directory = directory
        self._tell = tell
        self._lead = placement.topology.lead
        self._wanted = iterations
        self._number = 0
        self._origin = 0.0  # of the newest trace, and the clocks of its processes
        self._known: dict[str, Clock] = {}
        self._ends_at: int | None = None  # the number of steps of the lead at which the trace ends
        self._steps = 0
        self.under_way = False
        self._task: asyncio.Task[None] | None = None  # reads the clocks, or ends the trace
        self._asking: set[asyncio.Future[Any]] = set()  # open asks to agents

    def __repr__(self) -> str:
        return f"<tracing: {self._number} so far, {'one' if self.under_way else 'none'} under way>"

    # -- a watcher

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Start the trace of the first iterations when the run has begun."""
        if event == "began" and self._wanted and not self._number:
            self._number = 1
            self.under_way = True
            self._ends_at = 1 + self._wanted
            self._spawn(self._clocks())
        elif (actor, event) == (SUPERVISOR, SPAWNED) and self.under_way:
            joining = asyncio.ensure_future(self._join(str(fields["name"])))
            self._asking.add(joining)
            joining.add_done_callback(self._asked_for)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Count the lead's steps, and end the trace after the last traced iteration."""
        if self._lead in heartbeat.actors:
            self._steps = int(heartbeat.actors[self._lead].get("steps", 0))
            if (
                self.under_way
                and self._ends_at is not None
                and self._steps > self._ends_at
                and self._is_free()
            ):
                self._spawn(self._end())

    def failed(self, error: ConvoyError) -> None:
        """Ignore the end of the run: `close` makes the file."""

    # -- requests

    async def begin(self, iterations: int) -> Looked:
        """Trace all processes from now on, for so many iterations, or until `end` (0). Raises
        ProgramFailed if the run is being traced already."""
        if self.under_way:
            raise ProgramFailed("this run is being traced: `trace stop` ends that")
        self._number = self._number + 1
        self.under_way = True
        self._ends_at = self._steps + iterations if iterations else None
        try:
            await self._clocks()
            asked = StartTrace(number=self._number)
            silent = self._silent(await self._all(asked))
        except OSError as error:
            self.under_way = False
            raise ProgramFailed(f"{error.filename}: {reason(error)}") from None
        until = f"for {iterations} iterations" if iterations else "until `trace stop`"
        traced = counted(len(self._processes) - len(silent), "process")
        return Looked(lines=(f"tracing {traced} {until}", *silent))

    async def end(self) -> Looked:
        """Stop tracing and make the file. Raises ProgramFailed if the run is not traced, or if the
        file cannot be made."""
        if not self.under_way:
            raise ProgramFailed("this run is not being traced: `trace start` begins that")
        self.under_way = False
        answers = await self._all(StopTrace())
        await self._copied(answers)
        merged = await self._merged()
        return Looked(lines=(str(merged), *self._silent(answers)))

    async def close(self) -> None:
        """Make a file of the parts that were traced, since the run is over."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        asking = list(self._asking)
        for ask in asking:
            ask.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self.under_way = False
        if self._number and is_unmerged(self._directory):
            try:
                await self._merged()
            except ProgramFailed as error:
                self._tell(SUPERVISOR, WARNING, {"text": str(error)})

    # -- inside

    async def _end(self) -> None:
        try:
            for line in (await self.end()).lines[1:]:
                self._tell(SUPERVISOR, WARNING, {"text": line})
        except ConvoyError as error:
            self._tell(SUPERVISOR, WARNING, {"text": str(error)})

    async def _merged(self) -> Merged:
        merging = asyncio.ensure_future(asyncio.to_thread(merge, self._directory))
        try:
            merged = await asyncio.shield(merging)
        except asyncio.CancelledError:  # wait for the thread: half a file is useless
            await asyncio.gather(merging, return_exceptions=True)
            raise
        except (OSError, ConfigError) as error:
            raise ProgramFailed(f"{FILE} cannot be made: {error}") from None
        for note in merged.notes:
            self._tell(SUPERVISOR, WARNING, {"text": note})
        self._tell(SUPERVISOR, "trace", merged.fields)
        return merged

    async def _clocks(self) -> None:
        """Write the clocks at once, so that a file can be made in any case. Write them again when
        the clocks of other hosts have been read."""
        origin = self._voice.now()
        self._origin = origin
        self._known = {name: Clock() for name in self._processes}
        write_clocks(self._directory, self._number, origin, self._known)
        far = [name for name in self._processes if self._is_far(name)]
        if far:
            read = await asyncio.gather(*map(self._clock, far))
            self._known |= {
                name: clock for name, clock in zip(far, read, strict=True) if clock is not None
            }
            write_clocks(self._directory, self._number, origin, self._known)

    async def _join(self, process: str) -> None:
        """Trace a process that was started on this host while the trace is under way."""
        self._known[process] = Clock()
        try:
            write_clocks(self._directory, self._number, self._origin, self._known)
        except OSError as error:
            text = f"process {process} is not traced: {error.filename}: {reason(error)}"
            self._tell(SUPERVISOR, WARNING, {"text": text})
            return
        await self._asked(process, StartTrace(number=self._number), Traced)

    @property
    def _processes(self) -> list[str]:
        """The present processes of the run."""
        return list(self._roll.specs)

    def _is_far(self, process: str) -> bool:
        greeting = self._roll.greetings.get(process)
        return greeting is not None and greeting.host != host_identity.identity()

    async def _clock(self, process: str) -> Clock | None:
        readings = []
        for _ in range(READINGS):
            before = self._voice.now()
            said = await self._asked(process, GetClock(), ClockReading)
            if said is None:
                return None
            readings.append((before, said.now, self._voice.now()))
        return Clock.of(readings)

    async def _copied(self, answers: dict[str, Traced | None]) -> None:
        """Wait until the parts of other hosts are here in their full size."""
        far = {
            name: said for name, said in answers.items() if said is not None and self._is_far(name)
        }
        parts = {
            part_of(self._directory, name, self._number): said.size for name, said in far.items()
        }
        try:
            async with asyncio.timeout(COPY_SECONDS):
                while any(size_now(path) < size for path, size in parts.items()):  # noqa: ASYNC110  # no event for this
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            text = f"parts of the trace on other hosts did not arrive within {COPY_SECONDS:g} s"
            self._tell(SUPERVISOR, WARNING, {"text": text})

    async def _all(self, message: Message) -> dict[str, Traced | None]:
        found = await asyncio.gather(
            *(self._asked(name, message, Traced) for name in self._processes)
        )
        return dict(zip(self._processes, found, strict=True))

    async def _asked(self, process: str, message: Message, answer: type[R]) -> R | None:
        """Ask the agent of a process. Returns None if it has died, cannot answer, or does not
        answer in time. A later answer is not an error."""
        asking = asyncio.ensure_future(self._voice.ask(agent_of(process), message, answer))
        self._asking.add(asking)
        asking.add_done_callback(self._asked_for)
        await asyncio.wait([asking], timeout=ANSWER_SECONDS)
        failed = not asking.done() or asking.cancelled() or asking.exception() is not None
        return None if failed else asking.result()

    def _asked_for(self, asking: asyncio.Future[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # asyncio would log it

    def _silent(self, answers: dict[str, Traced | None]) -> list[str]:
        names = [name for name, said in answers.items() if said is None]
        return (
            [(f"not traced to its end: {', '.join(names)}: no answer within {ANSWER_SECONDS:g} s")]
            if names
            else []
        )

    def _is_free(self) -> bool:
        return self._task is None or self._task.done()

    def _spawn(self, work: Any) -> None:
        self._task = asyncio.get_running_loop().create_task(work, name="tracing")

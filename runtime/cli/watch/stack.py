"""`stack`: show what every actor waits for, and where its process is in the code."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.attached.attach import Client
from runtime.attached.observed_run import ObservedRun
from runtime.cli.arguments import HERE, Connection, Switch
from runtime.cli.watch.rates import doing
from runtime.cli.watch.run_sampling import Look, Looking, State, named, seen_by
from runtime.cli.watch.stack_files import is_called, shortened, stands_still, written
from runtime.cli.watch.stack_files import native as native_stacks
from runtime.cluster.operators.operator_messages import JOURNAL
from runtime.durations import duration
from runtime.errors import ActorStopped, ConvoyError
from runtime.plan.run_plan import RunPlan
from runtime.records import journal_reading
from runtime.records.run_files import LeftOut

LOOK_SECONDS = 1.0  # within which a process that is not stuck answers


def stack(
    run: str | None = None,
    actor: str | None = None,
    *,
    native: Switch = False,
    connection: Connection = HERE,
) -> int:
    """Show what the actors of a live run wait for, and the Python stacks of all threads of their
    processes.

    This also works if the event loop of a process is stuck. A process that is stopped is reported
    as such.

    Parameters
    ----------
    run
        A run directory or its name; by default the only live run.
    actor
        Show only this actor and its process.
    native
        Also show the frames of libraries and kernels, for processes on this host. Needs py-spy and
        the right to trace.
    """
    return asyncio.run(_shown(run, actor, connection, native))


async def _shown(run: str | None, actor: str | None, connection: Connection, native: bool) -> int:
    from runtime.report.console import Teller

    console = Teller()
    seen, actor = seen_by(run, actor, connection)
    async with AsyncExitStack() as stack:
        looked = await stack.enter_async_context(seen)
        placement = RunPlan.read(looked.directory).placement
        if actor is not None:
            named(actor, list(placement.process_of()), "actor")
        if not await looked.lives():
            place = looked.place
            raise ActorStopped(
                f"the run in {place} is over; the logs of its processes are in {place / 'logs'}"
            )
        # its processes are not of this host or container, so their pids have no meaning here
        if not await looked.answers():
            presence = await looked.presence()
            raise ConvoyError(
                f"the run in {looked.place} "
                f"{presence.words if presence is not None else 'is over'}: its processes "
                "cannot be looked at from here; run `stack` there, or use --connect"
            )
        await looked.refresh(JOURNAL)
        damaged = LeftOut(looked.directory / JOURNAL)
        greetings = await asyncio.to_thread(_greetings, looked.directory, damaged)
        for note in damaged.notes:
            console.warn(note)
        look = Look(0.0, {})
        client = None
        try:
            client = await stack.enter_async_context(looked.client())
            looking = await stack.enter_async_context(Looking(client))
            look = await looking.look(LOOK_SECONDS)
        except ConvoyError as error:
            # `up` itself is stuck or stopped; its processes can still be looked at
            console.say(f"up: {error}: the following comes from its processes alone")
        for spec in placement.processes:
            if actor is None or actor in spec.actors:
                actors = [actor] if actor else spec.actors
                greeting = greetings.get(spec.name)
                process = _Process(
                    spec.name, actors, greeting, look.states.get(spec.name), looked, client
                )
                async for line in process.lines(native):
                    console.say(line)
    return 0


@dataclass(frozen=True)
class _Process:
    """One process and the data about it. `greeting` is its greeting, None if it has not greeted.
    `state` is its present state, None if it does not answer."""

    name: str
    actors: Sequence[str]
    greeting: dict[str, Any] | None
    state: State | None
    seen: ObservedRun
    client: Client | None

    async def lines(self, native: bool) -> AsyncIterator[str]:
        """The lines to print."""
        if self.greeting is None:
            yield f"process {self.name}: has not greeted yet"
            return
        yield f"process {self.name}: pid {self.greeting['pid']} on {self.greeting['host']}"
        here = (
            self.seen.is_here
            and self.greeting["host"] == platform.node()
            and is_called(self.greeting["pid"], self.name)
        )
        pid: int | None = self.greeting["pid"] if here else None
        if pid is not None and (still := stands_still(pid)):
            yield f"  it is {still}"
            return
        if self.state is None:
            yield "  its event loop does not answer: it is stuck, or busy for longer than a second"
        else:
            for line in _waits(self.state, self.actors):
                yield f"  {line}"
        if native and pid is not None:
            for line in await native_stacks(pid):
                yield f"    {line}"
            return
        if native:
            yield "  --native: the process is on another host; these are only its Python stacks"
        text = await written(self.seen, self.name, pid, self.client)
        for line in shortened(text):
            yield f"    {line}"
        if not text:
            yield (
                "    its stacks did not arrive: a call into a library keeps the "
                "interpreter's lock, or the system does"
            )
            yield "    not let the process run; `stack --native` on its host needs neither"


def _waits(state: State, actors: Sequence[str]) -> Iterator[str]:
    for name in actors:
        now = state["actors"].get(name)
        if now is None:
            yield f"{name}: not started yet"
            continue
        said = doing(now)
        inbox = f"; {now['inbox']} in its inbox" if now["inbox"] else ""
        oldest = f", {now['oldest'][0]} for {duration(now['oldest'][1])}" if now["oldest"] else ""
        yield f"{name}: {said}{inbox}{oldest}"
        if now["handling"] and not said.startswith("handling"):
            yield f"  in its handler of {now['handling']}"
        for peer, kind, seconds in now["asks"][said.startswith("waits") :]:
            yield f"  waits for {peer} ({kind}) for {duration(seconds)}, too"


def _greetings(directory: Path, damaged: LeftOut) -> dict[str, dict[str, Any]]:
    """The greeting of each process, from the journal, which is readable even if `up` is stuck.
    Raises Damaged if the journal cannot be read."""
    told = [
        event for event in journal_reading.events(directory, damaged) if event["event"] == "process"
    ]
    kinds = {"process": str, "pid": int, "host": str}
    return {
        event["process"]: event
        for event in told
        if all(isinstance(event.get(field), kind) for field, kind in kinds.items())
    }

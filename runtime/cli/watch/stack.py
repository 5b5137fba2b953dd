"""`stack`: what every actor waits for, and where its process is in the code."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

LOOK_SECONDS = 1.0  # for a process that is not stuck to say what it does


def stack(
    run: str | None = None, actor: str | None = None, *, native: Annotated[bool, Parameter(negative=())] = False
) -> int:
    """Show what the actors of a live run wait for, and the Python stacks of all threads of their processes.

    It works when the event loop of a process is stuck, and says of one that is stopped that it is.

    Parameters
    ----------
    run
        A run directory or its name; without it the only live run.
    actor
        Only this one, and its process.
    native
        The frames of libraries and kernels, too, of processes of this host; needs py-spy and the right to trace.
    """
    from runtime.cli.arguments import runs_here

    return asyncio.run(_shown(run, actor, runs_here(), native))


async def _shown(run: str | None, actor: str | None, below: Path, native: bool) -> int:
    from runtime.cli.watch.looking import Look, Looking, meant_by, named
    from runtime.errors import ActorStopped, ConvoyError
    from runtime.plan.run_plan import RunPlan
    from runtime.report.console import RunConsole
    from runtime.runs.finding import PATIENCE, listens

    directory, actor = await meant_by(run, actor, below)
    console = RunConsole(live=False)
    placement = RunPlan.read(directory).placement
    homes = placement.process_of()
    if actor is not None:
        named(actor, list(homes), "actor")
    if not await asyncio.to_thread(listens, directory):
        raise ActorStopped(f"the run in {directory} is over; what its processes wrote is in {directory / 'logs'}")
    wanted = [spec for spec in placement.processes if actor is None or actor in spec.actors]
    facts = await asyncio.to_thread(_born, directory)
    look, looking = Look(0.0, {}), None
    async with AsyncExitStack() as stack:
        try:
            looking = await stack.enter_async_context(Looking(directory, PATIENCE))
            look = await looking.look(LOOK_SECONDS)
        except ConvoyError as error:  # `up` is stuck or stopped itself: its processes are here all the same
            console.say(f"up: {error}; what follows is of its processes alone")
        for spec in wanted:
            pid = _here(facts.get(spec.name))
            client = looking.client if looking is not None else None
            lines = _of_process(directory, spec, actor, facts.get(spec.name), look.states.get(spec.name), pid, client, native)
            async for line in lines:
                console.say(line)
    return 0


async def _of_process(
    directory: Path, spec: Any, actor: str | None, fact: Any, state: Any, pid: int | None, client: Any, native: bool
) -> Any:
    from runtime.cli.watch.stacks import named, stands_still, written
    from runtime.cli.watch.stacks import native as native_stacks

    where = "not started yet" if fact is None else f"pid {fact['pid']} on {fact['host']}"
    yield f"process {spec.name}: {where}"
    still = stands_still(pid) if pid is not None else ""
    if still:
        yield f"  it is {still}"
        return
    if fact is None:
        return
    if state is None:
        yield "  its event loop does not answer: it is stuck, or busy for more than a second"
    else:
        for line in _waits(state, [actor] if actor else spec.actors):
            yield f"  {line}"
    if native and pid is not None:
        for line in await native_stacks(pid):
            yield f"    {line}"
        return
    if native:
        yield "  --native: it is on another host; these are its Python stacks"
    text = await written(directory, spec.name, pid, client)
    for line in named(text, state["threads"] if state else {}):
        yield f"    {line}"
    if not text:
        yield "    its stacks did not come: it does not take signals now"


def _waits(state: Any, actors: Any) -> Iterator[str]:
    from runtime.cli.watch.rates import doing, spoken

    for name in actors:
        now = state["actors"].get(name)
        if now is None:
            yield f"{name}: not there yet"
            continue
        inbox = f"; {now['inbox']} in its inbox" if now["inbox"] else ""
        oldest = f", {now['oldest'][0]} for {spoken(now['oldest'][1])}" if now["oldest"] else ""
        yield f"{name}: {doing(now)}{inbox}{oldest}"
        if now["handling"] and not doing(now).startswith("handling"):
            yield f"  in its handler of {now['handling']}"
        first = bool(now["asks"]) and doing(now).startswith("waits")
        for peer, kind, seconds in now["asks"][first:]:
            yield f"  waits for {peer} ({kind}) for {spoken(seconds)}, too"


def _born(directory: Path) -> dict[str, dict[str, Any]]:
    """Process -> what it said when it greeted, by the journal: that also tells of a run whose `up` is stuck."""
    found: dict[str, dict[str, Any]] = {}
    with (directory / "events.jsonl").open() as lines:
        for line in lines:
            try:
                event = json.loads(line)
                if event["event"] == "process":
                    found[event["process"]] = {"pid": int(event["pid"]), "host": str(event["host"])}
            except (ValueError, KeyError, TypeError):  # damaged, or half written
                continue
    return found


def _here(fact: dict[str, Any] | None) -> int | None:
    """The process number of a process of this host."""
    return fact["pid"] if fact is not None and fact["host"] == platform.node() else None

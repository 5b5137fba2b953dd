"""`runtime.map`: a function is called with each item, in processes of a run.

The script asks each worker for one item at a time. Large arrays stay in memory that the script and
the workers share: an item is copied into it once, and read in place by the worker; so is a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from runtime.errors import ActorStopped, ConfigError, ConvoyError, ItemFailed, Unsendable, root_of
from runtime.machine.usable_cores import usable
from runtime.messages.plain_values import Value, packed, unpacked
from runtime.plan.topology import ActorSpec, Topology
from runtime.pool import worker as pool
from runtime.pool.function_place import place_of
from runtime.pool.jobs import Job, Jobs
from runtime.pool.worker import Call, GetAlive, Outcome, WorkerOptions, mover
from runtime.runs.run import Run
from runtime.runs.scripting import launch, on_a_loop

DEATHS = 3  # of workers, by one item
LEAD = "pool"
NEVER = 1e9  # seconds
# A function may compute for hours, and hold the interpreter's lock for as long. A worker that ends
# is noticed by its end.
PATIENT = {"missed": 10**9, "progress_seconds": NEVER, "standstill_seconds": NEVER}
BRIEF = 100  # characters of an item in an error


def map(  # noqa: A001  # as it is called: runtime.map
    function: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    workers: int | None = None,
    deaths: int = DEATHS,
    **settings: Any,
) -> list[Any]:
    """Call `function` with each of `items` in worker processes. Return the results, in order.

    `workers`: their number, by default one for each core. `settings` are those of `launch`. The
    function is found by its module and its name, so it must be defined at the top level of a module
    or of the script. Items and results are plain values (`plain_values`); arrays arrive read-only.
    The next item is taken when a worker is free.

    Raises ItemFailed if the function raises an error, or if `deaths` workers died while they
    computed the same item; the other items are then given up. A worker that dies is started again,
    and its item is given to the next free worker. Raises ConfigError for a function that has no
    such name, and the ConvoyError that ended the run. Ctrl-C ends all processes.
    """
    count = len(usable()) if workers is None else workers
    problems = [
        f"map(): {name}: found {value!r}, expected a whole number >= 1"
        for name, value in (("workers", count), ("deaths", deaths))
        if type(value) is not int or value < 1
    ]
    if problems:
        raise ConfigError(problems)
    if on_a_loop():
        text = "an event loop runs here, as in a notebook"
        raise ConvoyError(f"{text}: await asyncio.to_thread(runtime.map, function, items)")
    module, name = place_of(function, here=settings.get("processes") == "here")
    options = WorkerOptions(module=module, name=name, restarts=2**31)
    names = [f"worker-{number}" for number in range(count)]
    actors = (ActorSpec(LEAD, "lead"), *(ActorSpec(each, "worker", options) for each in names))
    topology = Topology(pool.__name__, actors, tuple((LEAD, each) for each in names), LEAD)
    given = {"name": name, **settings, "liveness": {**PATIENT, **settings.get("liveness", {})}}
    run = launch(topology, shared_arrays=True, **given)
    with asyncio.Runner(loop_factory=run.loop_factory) as runner:
        return runner.run(_mapped(run, names, items, deaths))


async def _mapped(run: Run, names: list[str], items: Iterable[Any], deaths: int) -> list[Any]:
    jobs = Jobs(items)
    ends: dict[str, str] = {}  # worker -> how it died the last time
    async with run:
        try:
            listening = asyncio.create_task(_listen(run, ends))
            try:
                async with asyncio.TaskGroup() as group:
                    for name in names:
                        group.create_task(_feed(run, name, jobs, deaths, ends))
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
        except ExceptionGroup as errors:
            raise root_of(errors) from None
        await run.wind_down("all items are done")
    return [jobs.results[number] for number in range(len(jobs.results))]


async def _feed(run: Run, name: str, jobs: Jobs, deaths: int, ends: dict[str, str]) -> None:
    """Give jobs to one worker until all are done."""
    while (job := await jobs.next()) is not None:
        try:
            outcome = await run.ask(name, _call(run, job), Outcome)
        except ActorStopped:
            jobs.died(job)
            await run.ask(name, GetAlive(), bool)  # raises if the run is over
            if job.deaths >= deaths:
                text = f"its worker died {job.deaths} times, the last time: {ends.get(name, '')}"
                raise ItemFailed(job.number, job.item, _told(job, text)) from None
        else:
            if outcome.error:
                raise ItemFailed(job.number, job.item, _told(job, outcome.error))
            jobs.done(job, unpacked(Value(tree=outcome.tree, arrays=outcome.arrays)))


def _call(run: Run, job: Job) -> Call:
    try:
        value = packed(job.item, mover(run.memory))
    except Unsendable as error:
        raise ItemFailed(
            job.number, job.item, _told(job, f"it cannot be sent: {error.text}")
        ) from None
    return Call(tree=value.tree, arrays=value.arrays)


def _told(job: Job, text: str) -> str:
    shown = " ".join(repr(job.item).split())
    shown = shown if len(shown) <= BRIEF else f"{shown[: BRIEF - 3]}..."
    return f"item {job.number} ({shown}): {text}"


async def _listen(run: Run, ends: dict[str, str]) -> None:
    """Note how each worker has died."""
    async for event in run.events():
        if event.name == "warning" and event.fields.get("process") in run.placement.process_of():
            ends[event["process"]] = event["text"].removesuffix("; it is started again")

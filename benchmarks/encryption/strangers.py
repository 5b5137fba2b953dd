"""The part `strangers` of `encryption`: a run over encrypted links, with and without strangers that
try to enter (`strangers`).

Two machines with a cable of 1 Gbit/s each, and a conv worker on both. The run is on one core and
the strangers on another, so the result is the time that the run itself spends on them. Calm and
attacked seconds take turns, and the ratio is the median of the ratios of the turns.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import roles
import runtime
from benchmarks.helpers.machines import Machine, Refused, machines
from benchmarks.helpers.report import ROOT, Record
from benchmarks.helpers.strangers import STRANGERS, doors_of, line_of
from benchmarks.second_user import SOLVER, WARM, Watched
from runtime.runs.run import Run

RATE = 10**9  # bits per second
ATTACKED = ("coordinator", "conv-0-1")  # on the first machine and on the second
PEER = "conv_model"  # the peer that the strangers pose as
TRIES = 20  # of a half turn
SECONDS = 3.0
MOST = 1.05  # times the seconds of a calm iteration


def beside_strangers(record: Record, rounds: int) -> None:
    """Measure each of the eight ways for so many turns."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Refused("two cores are needed")
    with (
        machines(2, RATE) as made,
        tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder,
    ):
        os.sched_setaffinity(0, cores[:1])
        try:
            asyncio.run(_measure(record, made, Path(folder), rounds, cores[1]))
        finally:
            os.sched_setaffinity(0, cores)


async def _measure(
    record: Record, made: Sequence[Machine], folder: Path, rounds: int, core: int
) -> None:
    record.facts["tries"] = (
        f"{TRIES} in {SECONDS:g} s, {rounds} times, and as many calm seconds between"
    )
    record.table("Milliseconds of an iteration", "strangers", "calm", "attacked", "ratio", "let in")
    (folder / "solver.prototxt").write_text(SOLVER)
    data = {"train": {"format": "digits", "split": "train"}}
    strategy = {"preset": "sync", "workers": 2}
    solver = str(folder / "solver.prototxt")
    topology = roles.training({"solver": solver, "batch": 64, "data": data, "strategy": strategy})
    there = [
        {"name": f"m{number}", "namespace": each.namespace, "address": each.address, "threads": 1}
        for number, each in enumerate(made)
    ]
    apart = [{"name": ATTACKED[1], "machine": "m1", "actors": [ATTACKED[1]]}]
    async with runtime.launch(topology, directory=folder, machine=there, process=apart) as run:
        watched = Watched(run)
        following = asyncio.create_task(watched.follow())
        while watched.iterations < WARM:
            await watched.next()
        await _all(record, watched, _line(run, watched, made), rounds, core)
        await run.end_now()
        await following


def _line(run: Run, watched: Watched, made: Sequence[Machine]) -> str:
    """The first line for the strangers: the doors of both processes."""
    (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{os.getpid()}-*")
    began = {event["process"]: event for event in watched.processes}
    doors = []
    for machine, name in zip(made, ATTACKED, strict=True):
        told = began[name]
        doors += doors_of(
            machine.address,
            told["pid"],
            told["metrics_port"],
            sockets,
            name,
            (PEER, began[PEER]["pid"]),
        )
    return line_of(doors)


async def _all(record: Record, watched: Watched, doors: str, rounds: int, core: int) -> None:
    others = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.helpers.strangers",
        cwd=ROOT, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, preexec_fn=partial(os.sched_setaffinity, 0, {core}),
    )  # fmt: skip
    assert others.stdin is not None
    assert others.stdout is not None
    tell = others.stdin.write
    hear = others.stdout.readline

    async def knock(name: str, tries: int, seconds: float) -> int:
        tell(f"{name} {tries} {seconds}\n".encode())
        return int(await hear())

    tell(f"{doors}\n".encode())
    await knock("null", 0, 0.0)  # waits until everything is imported
    for name in STRANGERS:
        await _one(record, name, watched, rounds, partial(knock, name, TRIES, SECONDS))
    others.stdin.close()
    await others.wait()


async def _one(
    record: Record, name: str, watched: Watched, rounds: int, knock: Callable[[], Awaitable[int]]
) -> None:
    calm = []
    attacked = []
    let_in = 0
    for _ in range(rounds):
        calm.append((await watched.pace(asyncio.sleep(SECONDS)))[0])
        pace, answered = await watched.pace(knock())
        attacked.append(pace)
        let_in += answered
    ratio = median(there / here for there, here in zip(attacked, calm, strict=True))
    record.row(name.replace("_", " "), 1000 * median(calm), 1000 * median(attacked), ratio, let_in)
    if ratio > MOST:
        record.fail(f"{name}: {ratio:.3f} times the seconds of a calm iteration, at most {MOST:g}")
    if let_in:
        record.fail(f"{name}: {let_in} strangers were let in")

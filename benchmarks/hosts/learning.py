"""Seconds until a training loss is reached on eight machines with a core each and cables of
1 Gbit/s, for `benchmarks.hosts`: ours compared with PyTorch's DDP.

All is really computed and really sent, in slow motion: one machine plays eight, so each of them has
a fifth of a core (SLOWER) and a cable with a fifth of 1 Gbit/s, and all measured seconds are divided
by five. All processes of a machine share its core, of either side. Ours are the agent of the machine,
the nursery and the role processes, started through a script that stands for ssh; the process of `up`
itself lives on the first machine. Both sides are checked for processes outside of their machine.
Processes start at full speed: cores become slow when all of them have begun, as a life does.

What slow motion does not scale, alike on both sides: a core rests in steps of 4 ms, 0.8 ms of the
divided time, which a message may have to wait; the latency of a cable is shorter than a real one's;
the kernel's own work for packets has no quota. `up` hears from the machines over the switch, which
has no rate; only their cables do. If the real cores are busy throughout, machines had less than
their part, and a note says so.

A life is one run of one side from its first iteration until the mean training loss of the last
WINDOW iterations is at most the target. The target is a loss that is worth a run: LeNet's comes after
two epochs of DDP, CIFAR-10 quick's after two or three. The seconds until a higher loss, in the first
epoch, are recorded too: there the tuner's first search weighs more. An iteration is one update from 128 images on both sides: a
group of ours computes a whole batch, whatever its number of workers, so the loss of an iteration is
the mean over as many images. Iterations of several groups overlap, and probes of the tuner that are
put back take time but are no iterations. So only seconds compare fairly. Ours count from the event
`began`, tuner and all; DDP's from a barrier after its processes are ready.

DDP is tuned before: its rate is the best of FACTORS times the published one, its memory layout the
faster one. Neither is counted. Ours starts from the published rate and chooses groups, momentum and
rate (`"auto"`) in the counted seconds, with the default budget for probes. The preset is
`omnivore`; `"auto"` would try presets in runs before the first iteration, which no life counts.
The solver's end, from which the budget follows, is that of the published solvers: several times
what the target needs.

The lives of both sides alternate. The figure is the median over lives of DDP's seconds divided by
ours, where a life of ours that does not reach the target counts as 0.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.helpers.machines import machines
from benchmarks.helpers.quotas import quotas
from benchmarks.helpers.report import Record
from benchmarks.hosts.clusters import GIGABIT, WORKS, Work
from benchmarks.hosts.lives import SLOWER, WINDOW, Bench, Life
from benchmarks.hosts.sides import alone, torch_times
from benchmarks.messages.pair import Lost
from benchmarks.scaling.scaling import BUSY
from runtime.errors import ConvoyError

BAR = 1.2  # DDP's seconds divided by ours
FACTORS = (3, 10, 1)  # of the published rate, for DDP; the likeliest first, which limits the others
REPEATS = 20  # of a step, for DDP's layout
GRID_SECONDS = 3600.0  # of the search of DDP's rate, at most


@dataclass(frozen=True)
class Goal:
    """The loss to reach, a higher loss on the way (`early`), the iterations of our solver, and the
    data: the name of a format, a folder, and patterns for the files of each key."""

    loss: float
    early: float
    iterations: int
    format: str
    folder: str
    files: Mapping[str, str]


# BVLC's iterations: of CIFAR-10 quick until its rate falls, and of LeNet 10 000 of 64 images
GOALS = {
    "cifar10_quick": Goal(1.2, 1.4, 4000, "cifar10", "cifar10", {"files": "data_batch_*.bin*"}),
    "lenet": Goal(
        0.03,
        0.1,
        5000,
        "idx",
        "mnist",
        {"images": "train-images-idx3-ubyte*", "labels": "train-labels-idx1-ubyte*"},
    ),
}


def learning(record: Record, given: argparse.Namespace) -> None:
    """Measure and judge each net. Raises Refused if slow machines cannot be made here."""
    nets = [net for net in GOALS if net in given.nets]
    if not nets:
        record.status = "skipped"
        record.note(f"left out: it measures {' and '.join(GOALS)}; --nets names neither")
        return
    record.facts["machines"] = (
        f"{given.machines} network namespaces, each with 1/{SLOWER} of a core (a control group) "
        f"and a cable of 1/{SLOWER} of 1 Gbit/s (tbf); all seconds are divided by {SLOWER}"
    )
    record.table(
        "Seconds until the loss is reached", "net", "life", "side", "seconds", "iterations",
        "loss", "seconds of an iteration", "held by probes", "DDP / ours", "until the early loss",
        "DDP / ours",
        "first machine: core used up", "all machines", "processor busy",
    )  # fmt: skip
    with (
        machines(given.machines, GIGABIT // SLOWER) as made,
        quotas(given.machines, SLOWER) as cores,
        tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as at,
    ):
        bench = Bench(made, cores, Path(at))
        for net in nets:
            data = data_of(GOALS[net], given.data)
            if isinstance(data, str):
                record.note(f"{net} is left out: {data}")
                continue
            asyncio.run(compared(record, bench, net, data, given.lives))
    if not record.tables[-1].rows and record.status == "running":
        record.status = "skipped"


def data_of(goal: Goal, folder: Path) -> dict[str, Any] | str:
    """The format and the files of a net's data, as the keys of [train.data.train]; the reason if a
    file is missing."""
    data: dict[str, Any] = {"format": goal.format}
    for key, pattern in goal.files.items():
        at = folder / goal.folder
        found = [str(file.resolve()) for file in sorted(at.glob(pattern))]
        if not found:
            return f"{at} has no {pattern}; --data names the folder of {goal.folder}"
        data[key] = found if key == "files" else found[0]
    return data


async def compared(
    record: Record, bench: Bench, net: str, data: dict[str, Any], lives: int
) -> None:
    """Measure the lives of both sides in turns, and judge them."""
    goal = GOALS[net]
    work = WORKS[net]
    try:
        theirs = await asyncio.to_thread(tuned_ddp, record, goal, work, data, len(bench.made))
    except Lost as error:
        record.fail(f"{net}: {error}")
        return
    ratios = list[float]()
    early = list[float]()
    for seed in range(1, lives + 1):
        name = f"{net}, life {seed}"
        life = bench.ddp({**theirs, "seed": seed}, goal.loss, goal.early)
        ddp = await lived(record, f"{name}, DDP", life)
        reached(record, goal, net, seed, "DDP", ddp, None, None)
        life = bench.ours(work, data, seed, goal.loss, goal.early, goal.iterations)
        ours = await lived(record, f"{name}, ours", life)
        found = sooner(goal, ddp, ours)
        at_first = sooner_early(ddp, ours)
        reached(record, goal, net, seed, "ours", ours, found, at_first)
        for text in ours.chosen if ours else ():
            record.note(f"{name}: {text}")
        ratios += [] if found is None else [found]
        early += [] if at_first is None else [at_first]
    if early:
        record.note(
            f"{net}: to a loss of {goal.early}, DDP's seconds divided by ours: {median(early):.2f}, "
            f"least {min(early):.2f}, most {max(early):.2f}"
        )
    judge(record, net, ratios)


def tuned_ddp(
    record: Record, goal: Goal, work: Work, data: Mapping[str, Any], count: int
) -> dict[str, Any]:
    """The options of a process of DDP, with the best layout and rate. Raises Lost if no rate reaches
    the loss."""
    told = {**vars(work), "rows": work.batch // count}
    told["layout"] = torch_times({**told, "repeats": REPEATS})["layout"]
    told["data"] = data
    tried = {
        "rows": work.batch,
        "rates": [factor * work.rate for factor in FACTORS],
        "target": goal.loss,
        "window": WINDOW,
        "most": goal.iterations,
    }
    found = alone("grid", {**told, **tried, "seed": 0}, GRID_SECONDS)
    reaching = {float(rate): taken for rate, taken in found.items() if taken is not None}
    shown = ", ".join(f"{rate} {taken or 'not sooner'}" for rate, taken in found.items())
    record.note(
        f"{work.net}: iterations of DDP to a loss of {goal.loss} by rate: {shown}; its layout is "
        f"{told['layout']}"
    )
    if not reaching:
        raise Lost(f"DDP reaches a loss of {goal.loss} at no rate within {goal.iterations}")
    return {**told, "rate": min(reaching, key=reaching.__getitem__)}


async def lived(record: Record, name: str, life: Awaitable[Life]) -> Life | None:
    """A life. None if an error ends it, which fails the record."""
    try:
        return await life
    except (ConvoyError, Lost) as error:
        record.fail(f"{name}: {error}")
        return None


def reached(
    record: Record,
    goal: Goal,
    net: str,
    seed: int,
    side: str,
    life: Life | None,
    ratio: float | None,
    at_first: float | None,
) -> None:
    """Record a row. `ratio` and `at_first`: DDP's seconds divided by ours, to the loss and to the
    early loss. The record fails if the loss was not reached."""
    if life is None:
        return
    seconds, iterations, loss, early = life.learnt
    record.row(
        net, seed, side, seconds, iterations, loss, seconds / max(1, iterations), life.held,
        "-" if ratio is None else ratio, early, "-" if at_first is None else at_first,
        *life.full, life.busy,
    )  # fmt: skip
    if life.busy > BUSY:
        record.note(f"{net}, life {seed}, {side}: the real cores were busy; machines had less")
    if not loss <= goal.loss:
        record.fail(
            f"{net}, life {seed}, {side}: a loss of {loss:.3f} after {seconds:.0f} s, "
            f"expected {goal.loss}"
        )


def sooner(goal: Goal, theirs: Life | None, ours: Life | None) -> float | None:
    """DDP's seconds divided by ours; 0 if ours did not reach the loss. None if DDP did not."""
    if theirs is None or not theirs.learnt.loss <= goal.loss:
        return None
    if ours is None or not ours.learnt.loss <= goal.loss:
        return 0.0
    return theirs.learnt.seconds / ours.learnt.seconds


def sooner_early(theirs: Life | None, ours: Life | None) -> float | None:
    """The same for the early loss."""
    if theirs is None or theirs.learnt.early == math.inf:
        return None
    return theirs.learnt.early / ours.learnt.early if ours is not None else 0.0


def judge(record: Record, net: str, ratios: Sequence[float]) -> None:
    """Judge the median of the lives."""
    if not ratios:
        record.fail(f"{net}: no life of DDP reached the loss")
        return
    text = (
        f"{net}: DDP's seconds divided by ours: {median(ratios):.2f}, least {min(ratios):.2f}, "
        f"most {max(ratios):.2f} of {len(ratios)} lives, bar at least {BAR}"
    )
    if median(ratios) < BAR:
        record.fail(f"MISSED {text}")
    else:
        record.note(text)

"""`python -m benchmarks.cifar94`: CIFAR-10 by the recipe of its speed records, in Convoy and in
PyTorch on the same cores and files.

The net and the recipe are airbench94's (Jordan 2024, 94% on CIFAR-10 in 3.29 seconds). Ours computes
in bfloat16 where the processor has it, else in float32. The second side is `port`, with the fastest
of float32 and bfloat16, eager and compiled. The seconds of a trial
go from the typed command to the end of the training and of one test of the larger file. Two files of
test images are scored apart: 1 000 lossless ones, and these with 9 000 that carry the noise of JPEG,
on which every net is worse. Trials are kept in a file, so a benchmark that is cut off goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.cifar94.sides import (
    TESTS,
    TRAIN,
    VARIANTS,
    WAYS,
    Failed,
    Size,
    Trial,
    Variant,
    ours,
    pace,
    port,
)
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, missing, write
from benchmarks.tuning.kept import Kept
from ops import lacking

POINTS = 0.3  # of accuracy that ours may be below the port's mean: the bars
SHARE = 0.5  # of the port's seconds that ours may take
UPDATES = 5  # by which a variant of PyTorch is timed
UPDATES_OF_EPOCH = 48
DATA = ROOT.parent / "shared" / "data" / "cifar10"
FILE = ROOT / "benchmarks" / "cifar94" / "trials.jsonl"


def main(arguments: list[str] | None = None) -> int:
    """Train, compare and write the results. Returns 1 if a training fails or a bar is missed."""
    parser = parser_of("cifar94", __doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="CIFAR-10's binary batches, gzipped"
    )
    parser.add_argument("--epochs", type=float, default=9.9)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--kept", type=Path, default=FILE, help="file of trials that are made")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    lost = [name for name in (*TRAIN, *TESTS.values()) if not (given.data / name).is_file()]
    if lost:
        parser.error(f"--data: {given.data} has no {', '.join(lost)}")
    size = Size(given.epochs, given.batch, given.threads)
    try:
        record = compared(given.data.resolve(), size, given.seeds, Kept(given.kept))
    except Failed as failed:
        print(f"a training failed; the trials before it are kept in {given.kept}:\n{failed}")
        return 1
    print("results:", *write(given.results, "cifar94", machine(), {"cifar94": record}))
    return int(record.status == "failed")


def compared(data: Path, size: Size, seeds: int, kept: Kept) -> Record:
    """Train with all seeds on both sides, which take turns."""
    record = Record("CIFAR-10 by the recipe airbench94")
    record.facts["training"] = str(size)
    precision = "fast" if lacking("cpu", "bf16") else "bf16"
    sides: dict[str, Callable[[int], Trial]] = {
        f"Convoy, {precision}": partial(ours, data, size, precision)
    }
    if missing({"torch": "torch"}):
        record.note("PyTorch left out: install it with: python -m pip install torch")
    else:
        best = fastest(record, data, size, kept)
        sides[f"PyTorch, {best}"] = partial(port, data, size, best)
    columns = [f"{images} images, {way}" for images in TESTS for way in WAYS]
    record.table(
        "Trials", "side", "seed", "seconds", "last loss", *columns, "10000 images, as published"
    )
    found: dict[str, list[Trial]] = {side: [] for side in sides}
    for seed in range(1, seeds + 1):
        for side, make in sides.items():
            name = f"{side}, seed {seed}, {size}"
            found[side].append(made(name, partial(make, seed), kept))
            record.row(side, seed, *_cells(found[side][-1]))
    judged(record, *found.values())
    record.facts["trials are from commits"] = ", ".join(sorted(kept.origins)) or "none"
    return record


def made(name: str, make: Callable[[], Trial], kept: Kept) -> Trial:
    """A trial, made once."""
    if (known := kept.get(name)) is None:
        known = make().plain()
        kept.put(name, known)
    return Trial(**known)


def fastest(record: Record, data: Path, size: Size, kept: Kept) -> Variant:
    """The variant of PyTorch whose training should take the fewest seconds."""
    updates = size.epochs * UPDATES_OF_EPOCH
    record.table("PyTorch's variants", "variant", "s, first update", "s, next", "s, training")
    best, least = Variant(), float("inf")
    for variant in VARIANTS:
        name = f"PyTorch, {variant}, pace, {size}"
        try:
            if kept.get(name) is None:
                kept.put(name, list(pace(data, size, variant, UPDATES)))
        except Failed as failed:
            record.note(f"{variant} does not work here: {str(failed).strip().splitlines()[-1]}")
            continue
        first, later = kept.get(name)
        total = first + updates * later
        record.row(str(variant), first, later, total)
        best, least = (variant, total) if total < least else (best, least)
    return best


def judged(record: Record, mine: list[Trial], others: list[Trial] | None = None) -> None:
    """Note means, and compare them with the bars."""
    for images in TESTS:
        means = [
            100 * fmean(trial.accuracy[images]["flips"] for trial in of)
            for of in (mine, others or [])
            if of
        ]
        record.note(
            f"{images} images, flips, mean: " + ", ".join(f"{mean:.2f} %" for mean in means)
        )
        if others and images == "10000":
            record.judge("points of accuracy above PyTorch's", means[0] - means[1], least=-POINTS)
    if others:
        share = fmean(trial.seconds for trial in mine) / fmean(trial.seconds for trial in others)
        record.judge("share of PyTorch's seconds", share, most=SHARE)
    if record.status == "running":
        record.status = "passed" if others else "skipped"


def _cells(trial: Trial) -> list[float | str]:
    scores: list[float | str] = [trial.accuracy[images][way] for images in TESTS for way in WAYS]
    return [trial.seconds, trial.loss, *scores, trial.accuracy["10000"].get("published", "-")]

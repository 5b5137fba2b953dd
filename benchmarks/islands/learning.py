"""Whether unequal machines on a slow link learn sooner together than the fastest of them alone.

Four machines have speeds 1 : 1 : 2 : 4, and links of 20 Mbit/s and 20 ms. They train LeNet with real
gradients on the virtual clock: a batch of 32 images takes the fastest machine 0.05 s, all of it in
the first piece of a pass. All ways see as many samples, but for the shorter and longer runs of the fastest machine.
The rate falls to 0 in every run. Accuracy is that of the model at the end, on all test images.

Trials are kept in a file of JSON lines, so a run that was cut off continues. The load of the
machine changes no number.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.helpers.report import ROOT, Record
from benchmarks.islands.runs import BATCH, Home, Task, trained
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept

SPEEDS = (4, 2, 1, 1)  # of the machines by rank
SECONDS = 0.05  # of a batch on the fastest machine
LATENCY = 0.02  # seconds
RATE = 20e6 / 8  # bytes per second
ITERATIONS = 3000  # of 32 images


@dataclass(frozen=True)
class Way:
    """A way to train: the keys of [train.strategy], and of [train.gradients]. An iteration has
    `batches` batches of 32 images. The run has `longer` times as many samples as the others, and
    `rate` times the learning rate."""

    name: str
    strategy: dict[str, Any] = field(hash=False)
    batches: int = 1
    longer: float = 1.0
    rate: float = 1.0
    form: str = "float32"


def islands(name: str, form: str = "int4", rate: float = 1.0, **keys: Any) -> Way:
    """Four islands with these keys of the preset."""
    strategy = {"preset": "islands", "workers": 4, "options": keys}
    return Way(name, strategy, form=form, rate=rate)


ALONE = "fastest machine alone"
ONE = {"preset": "single", "workers": 1}
WAYS = (
    Way(f"{ALONE}, half the samples", ONE, longer=0.5),
    Way(ALONE, ONE),
    Way(f"{ALONE}, 1.5 times the samples", ONE, longer=1.5),
    Way(f"{ALONE}, half the samples, twice the rate", ONE, longer=0.5, rate=2.0),
    Way(f"{ALONE}, half the samples, 4 times the rate", ONE, longer=0.5, rate=4.0),
    islands("islands, int4", outer_momentum=0.0),
    islands("islands, int4, outer momentum 0.5, half the rate", rate=0.5),
    islands("islands, int4, outer momentum 0.5"),
    islands("islands, int4, twice the rate", rate=2.0, outer_momentum=0.0),
    islands("islands, int4, 4 times the rate", rate=4.0, outer_momentum=0.0),
    islands("islands, int4, outer momentum 0.5, twice the rate", rate=2.0),
    islands("islands, int8", "int8", outer_momentum=0.0),
    islands("islands, float32", "float32", outer_momentum=0.0),
    islands("islands, int4, no grace window", outer_momentum=0.0, grace=0.0),
    islands("islands, int4, equal steps", outer_momentum=0.0, steps="equal"),
    islands("islands, int4, all islands", outer_momentum=0.0, quorum="all", speeds=SPEEDS),
    Way("omnivore, 4 groups", {"preset": "omnivore", "workers": 4, "groups": 4}),
    Way("sparknet, tau 16", {"preset": "sparknet", "workers": 4, "tau": 16}, batches=4),
    Way("replicas", {"preset": "replicas", "workers": 4, "shares": "throughput"}),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--mnist", type=Path, help="its folder; else the digits that ship")
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--ways", nargs="+", default=[way.name for way in WAYS])
    parser.add_argument("--kept", type=Path, default=ROOT / "runs" / "islands.jsonl")


def measured(given: argparse.Namespace) -> Record:
    """The record of all trials."""
    data = Data(given.mnist.resolve() if given.mnist else None, None)
    samples = given.iterations * BATCH
    title = f"LeNet on {data.digits_name}, {samples} samples, four machines of speeds 1 : 1 : 2 : 4"
    record = Record(
        title, status="passed", facts={"link": "20 Mbit/s, 20 ms", "seeds": given.seeds}
    )
    record.table("means of the seeds", "way", "errors in %", "virtual seconds", "MB sent")
    kept = Kept(given.kept)
    for way in WAYS:
        if way.name not in given.ways:
            continue
        found = [kept_trial(way, data, given.iterations, seed, kept) for seed in given.seeds]
        record.row(way.name, *(mean(each[at] for each in found) for at in range(3)))
    return record


def kept_trial(way: Way, data: Data, iterations: int, seed: int, kept: Kept) -> Sequence[float]:
    """The errors in percent, the virtual seconds and the megabytes of one trial."""
    name = f"{way} on {data.digits_name} in {iterations}, seed {seed}"
    if kept.get(name) is None:
        kept.put(name, trial(way, data, iterations, seed))
    found: Sequence[float] = kept.get(name)
    return found


def trial(way: Way, data: Data, iterations: int, seed: int) -> tuple[float, float, float]:
    """Train once, on the virtual clock."""
    said = {"strategy": way.strategy, "gradients": {"format": way.form}}
    said |= {"seed": seed, "batch": BATCH * way.batches}
    length = round(iterations * way.longer / way.batches)
    home = Home.alike(SPEEDS, SECONDS, RATE, LATENCY)
    ran = trained(Task("lenet", data), home, said, length, rate=way.rate, tests=0)
    return 100 * (1 - ran.accuracy), ran.seconds, ran.megabytes

"""The part `schemes` of `presets`: the schemes of One weird trick in processes, compared with one
another.

Two workers of one thread each train the same net with the schemes a, b and c. The runs live at the
same time and work in turns (`turns`), so that other load of the machine meets all of them. The FC
batches of b and c have half of the rows of that of a. So they cost more the smaller the work of the
conv phase is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.helpers.report import Record
from benchmarks.helpers.survivor import PATIENCE
from benchmarks.helpers.turns import Sleeper, Turns, taken_in_lives
from benchmarks.presets.runs import Data

SCHEMES = ("a", "b", "c")
WORKERS = 2
KEPT = 0.95  # of the speed of scheme a
SOLVER = """net: "{net}" base_lr: 0.0001 lr_policy: "fixed" momentum: 0.9
display: {display} max_iter: 100000000
"""
CLUSTER = """[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
[train.data]
train = {{ format = "synthetic", shape = {shape}, classes = {classes}, size = {size} }}
[train.strategy]
preset = "one-weird-trick"
workers = {workers}
scheme = "{scheme}"
[[machine]]
threads = 1
pin = ["worker-*"]
[liveness]   # a process that is stopped is neither stuck nor dead
progress_seconds = 3600
missed = 1000
"""


@dataclass(frozen=True)
class Work:
    """A net: its batch, its images, the iterations between two lines of a run, the seconds of a
    turn, and whether its conv phase is so large that the bar holds."""

    batch: int
    shape: tuple[int, int, int]
    classes: int
    display: int
    turn: float
    judged: bool = True


NETS = {
    "lenet": Work(64, (1, 28, 28), 10, 20, 1.0, judged=False),
    "cifar10_quick": Work(256, (3, 32, 32), 10, 2, 3.0),
    "alexnet_owt": Work(64, (3, 224, 224), 1000, 1, 8.0),
}


def schemes(record: Record, data: Data, given: argparse.Namespace) -> None:
    """Measure the images a second of each scheme. `data` is not used."""
    del data
    record.facts["turns"] = f"{given.lives} lives, {given.rounds} turns of each run in a life"
    of_a = [f"{scheme} / a" for scheme in SCHEMES[1:]]
    record.table(
        f"Images a second, {WORKERS} workers of one thread", "net", "batch", *SCHEMES, *of_a
    )
    for net in given.nets:
        found = measured(net, given.lives, given.rounds)
        rates = [found[scheme].rate for scheme in SCHEMES]
        ratios = {scheme: found[scheme].rate / rates[0] for scheme in SCHEMES[1:]}
        batch = NETS[net].batch
        record.row(net, batch, *(batch * rate for rate in rates), *ratios.values())
        for scheme, kept in ratios.items() if NETS[net].judged else ():
            record.judge(f"{net}, scheme {scheme}: speed, of that with a", kept, least=KEPT)


def measured(net: str, lives: int, rounds: int) -> dict[str, Turns]:
    """The turns of each scheme."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:

        def start(life: int) -> dict[str, Callable[[], Sleeper]]:
            return {
                scheme: partial(asleep, written(Path(folder, f"{life}-{scheme}"), net, scheme))
                for scheme in SCHEMES
            }

        return taken_in_lives(start, lives, rounds, NETS[net].turn)


def asleep(cluster: Path) -> Sleeper:
    """A run that sleeps, and whose turns are whole iterations."""
    sleeper = Sleeper(cluster, beside=whole)
    try:
        sleeper.turn(0.0)  # to the end of the iteration in which it fell asleep
    except BaseException:
        sleeper.stop()
        raise
    sleeper.turns = Turns()
    return sleeper


def whole(sleeper: Sleeper, seconds: float) -> None:
    """Wait for the first line of progress that comes after so many seconds. A few iterations make a
    turn of a large net, so a part of one would count much."""
    end = time.monotonic() + seconds
    while sleeper.run.told("progress", PATIENCE + seconds)[0] < end:
        pass


def written(folder: Path, net: str, scheme: str) -> Path:
    """Write a cluster.toml and its solver."""
    work = NETS[net]
    folder.mkdir(exist_ok=True)
    (folder / "solver.prototxt").write_text(SOLVER.format(net=net, display=work.display))
    cluster = folder / "cluster.toml"
    cluster.write_text(
        CLUSTER.format(
            net=net,
            batch=work.batch,
            shape=list(work.shape),
            classes=work.classes,
            size=2 * work.batch,
            workers=WORKERS,
            scheme=scheme,
        )
    )
    return cluster

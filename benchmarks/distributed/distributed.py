"""`python -m benchmarks.distributed`: two workers of one thread, compared with one process of two
threads and with PyTorch's DDP.

Our sides are runs of `up` that read made-up images as data. The global batch is the same on every
side. The result is the median of the progress that a run reports after its first third. The faster
preset counts: `replicas` computes the same as one process and DDP, `dl4j` averages models, and both
have rows. For CaffeNet, the exposed communication of an iteration is measured. `--against CHECKOUT`
compares with another commit instead, turn by turn (`turns`). The processes of DDP are in `peer`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.allreduce.allreduce import gloo_processes, run
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, commit_of, machine, missing, ratio, write
from benchmarks.helpers.turns import PARTS, Sleeper, Turns, taken_in_lives
from benchmarks.training.training import WORKLOADS

BESIDE_SINGLE = 0.9  # bars
BESIDE_DDP = 1.25
EXPOSED = 0.05
KEPT = 0.97  # of the speed of another commit, at least
# Iterations between two lines of a run, so that several lines come in a second. Other nets have a
# line for each iteration.
DISPLAY = {"lenet": 20, "cifar10_quick": 5}
SOLVER = """net: "{net}" base_lr: 0.001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
display: {display} max_iter: {iterations}
"""
CLUSTER = """[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
[train.data]
train = {{ format = "synthetic", shape = {shape}, classes = {classes}, size = {size} }}
[train.strategy]
preset = "{preset}"
workers = {workers}
[[machine]]
threads = {threads}
pin = {pin}
"""
# a process that is stopped is neither stuck nor dead
ASLEEP = "[liveness]\nprogress_seconds = 3600\nmissed = 1000\n"
# sums of gradients in every iteration, and means of parameters in every tenth
PRESETS = ("replicas", "dl4j")
PINNED = {"replicas": ["replica-*"], "dl4j": ["replica-*"], "sync": ["conv-*"]}  # the workers


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("distributed", __doc__)
    parser.add_argument("--nets", nargs="*", choices=WORKLOADS, default=["lenet", "cifar10_quick"])
    parser.add_argument(
        "--exposed",
        nargs="*",
        choices=WORKLOADS,
        default=["caffenet"],
        help="nets measured without a peer",
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help=("seconds of a turn of DDP; ours take about as long"),
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help=("compare with another commit's tree, instead of the peers"),
    )
    parser.add_argument("--lives", type=int, default=4, help="starts of the runs of each tree")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each run in a life")
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of such a turn")
    given = parser.parse_args(arguments)
    if given.against:
        return against(given)
    record = Record("Two workers on one host")
    sides: dict[str, Callable[[str], float]] = {
        "single, 2 threads": partial(rate, preset="single", workers=1, threads=2),
        **{
            f"{preset}, 2 x 1": partial(rate, preset=preset, workers=2, threads=1)
            for preset in PRESETS
        },
    }
    if missing({"torch": "torch"}):
        record.notes.append("DDP left out: install it with: python -m pip install torch")
    else:
        sides["DDP nchw"] = lambda net: ddp(net, "nchw", given.seconds)
        sides["DDP nhwc"] = lambda net: ddp(net, "nhwc", given.seconds)
    record.table("Images a second", "net", "batch", *sides, "best of single", "of the better DDP")
    for net in given.nets:
        beside(record, net, sides, given.turns)
    record.table(
        "Exposed communication", "net", "preset", "seconds of an iteration", "exposed", "part of it"
    )
    for net in given.exposed:
        for preset in ("replicas", "sync"):
            exposure(record, net, preset)
    if record.status == "running":
        record.status = "passed"
    paths = write(given.results, "distributed", machine(), {"distributed": record})
    print("results:", *paths)
    return int(record.status != "passed")


def against(given: argparse.Namespace) -> int:
    """Compare this tree's runs with those of another commit, in turns. Returns 1 if a bar is
    missed."""
    record = Record("Two workers beside an earlier commit")
    other = given.against.resolve()
    before = f"commit {commit_of(other)}"
    record.facts["turns"] = (
        f"{given.lives} lives, {given.rounds} of {given.turn:g} s in each, both alive at once"
    )
    parts = [f"part {number + 1}" for number in range(PARTS)]
    record.table(
        f"Images a second, beside {before}", "net", "preset", before, "this tree", "ratio", *parts
    )
    for net in given.nets:
        for preset in ("replicas", "sync"):
            then, now = compared(net, preset, [other, ROOT], given.lives, given.rounds, given.turn)
            kept = now.rate / then.rate
            shares = [ours / theirs for theirs, ours in zip(then.parts(), now.parts(), strict=True)]
            batch = WORKLOADS[net].batch
            record.row(net, preset, batch * then.rate, batch * now.rate, kept, *shares)
            if kept < KEPT:
                record.fail(f"{net}, {preset}: {kept:.3f} of {before}'s speed, at least {KEPT}")
    if record.status == "running":
        record.status = "passed"
    print("results:", *write(given.results, "distributed", machine(), {"against": record}))
    return int(record.status != "passed")


def compared(
    net: str, preset: str, trees: Sequence[Path], lives: int, rounds: int, seconds: float
) -> list[Turns]:
    """Run each checkout with two workers of one thread. One life alone may be 6 % off (LeNet,
    `replicas`)."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:

        def start(life: int) -> dict[str, Callable[[], Sleeper]]:
            starts: dict[str, Callable[[], Sleeper]] = {}
            for at, tree in enumerate(trees):
                cluster = written(
                    Path(folder, f"{life}-{at}"), net, preset, 2, 1, 10**8, DISPLAY.get(net, 1)
                )
                with cluster.open("a") as file:
                    file.write(ASLEEP)
                starts[str(tree)] = partial(Sleeper, cluster, tree)
            return starts

        found = taken_in_lives(start, lives, rounds, seconds)
        return [found[str(tree)] for tree in trees]


def beside(record: Record, net: str, sides: dict[str, Callable[[str], float]], turns: int) -> None:
    """Record one net: the sides in turns, and the medians of the turns' ratios."""
    paces: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, measure in sides.items():
            paces[name].append(measure(net))
    rates = {name: median(found) for name, found in paces.items()}
    single, *others = paces.values()
    peers = max(others[len(PRESETS) :], key=median, default=[])
    best = [0.0, 0.0]
    for preset, ours in zip(PRESETS, others, strict=False):
        ratios = [ratio(ours, single), ratio(ours, peers) if peers else float("nan")]
        record.note(f"{net}, {preset}: {ratios[0]:.2f} of one process, {ratios[1]:.2f} of DDP")
        best = max(best, ratios)
    record.row(net, WORKLOADS[net].batch, *rates.values(), *best)
    for found, bar, what in zip(
        best, (BESIDE_SINGLE, BESIDE_DDP), ("one process", "DDP"), strict=True
    ):
        if found < bar:
            record.fail(f"{net}: {found:.2f} of {what}, at least {bar}")


def exposure(record: Record, net: str, preset: str) -> None:
    """Record one net: the part of a worker's iteration that is exposed communication."""
    found = progress(net, preset, 2, 1, iterations=15, display=1)
    seconds = WORKLOADS[net].batch / median(event["images_per_second"] for event in found)
    exposed = median(event.get("exposed_seconds", 0.0) for event in found)
    record.row(net, preset, seconds, exposed, exposed / seconds)
    if exposed / seconds > EXPOSED:
        record.fail(
            f"{net}, {preset}: {exposed / seconds:.3f} of an iteration is exposed, "
            f"at most {EXPOSED}"
        )


def rate(net: str, preset: str, workers: int, threads: int) -> float:
    """The images a second of one of our runs."""
    iterations = {"lenet": 900, "cifar10_quick": 180}.get(net, 20)
    found = progress(net, preset, workers, threads, iterations, display=max(1, iterations // 30))
    return median(event["images_per_second"] for event in found)


def progress(
    net: str, preset: str, workers: int, threads: int, iterations: int, display: int
) -> list[dict[str, Any]]:
    """The progress that one of our runs reports, without its first third."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        cluster = written(Path(folder), net, preset, workers, threads, iterations, display)
        run([sys.executable, "-m", "runtime", "up", str(cluster)], folder=folder)
        journal = next(Path(folder, "runs").glob("*/events.jsonl"))
        events = [json.loads(line) for line in journal.read_text().splitlines()]
    found = [event for event in events if event["event"] == "progress"]
    return found[len(found) // 3 :]


def written(
    folder: Path, net: str, preset: str, workers: int, threads: int, iterations: int, display: int
) -> Path:
    """Write a cluster.toml and its solver."""
    work = WORKLOADS[net]
    folder.mkdir(exist_ok=True)
    (folder / "solver.prototxt").write_text(
        SOLVER.format(net=work.net, display=display, iterations=iterations)
    )
    shape = list(work.image or ())
    size = 4 * work.batch
    text = CLUSTER.format(
        net=work.net, batch=work.batch, shape=shape, classes=work.classes, size=size, preset=preset,
        workers=workers, threads=threads, pin=PINNED.get(preset, []),
    )  # fmt: skip
    (folder / "cluster.toml").write_text(text)
    return folder / "cluster.toml"


def ddp(net: str, layout: str, seconds: float) -> float:
    """The images a second of DDP with two processes."""
    return float(
        gloo_processes(2, ["-m", "benchmarks.distributed.peer", net, layout, str(seconds)])
    )

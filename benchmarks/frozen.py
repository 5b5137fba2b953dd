"""`python -m benchmarks.frozen`: whether the time and the memory of a training step fall with frozen
layers as `plan` predicts.

Each net trains whole, with the first half of its layers frozen, and with all but the last. `plan`
predicts the time of a step from the times of single layers, which `time --profile` measures. All steps
and all predictions live in one process and take turns, so other work on the machine affects them alike:
a ratio is the median of the ratios of the turns. A part of the whole net's time, or a number of bytes,
that differs from the prediction by more than 15 % is a failure.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, medians, ratio, seconds_of, write
from benchmarks.training.training import made_up, step_of
from nets import Net, load_net
from nets.files.weights import write_weights
from ops import get_backend
from roles.base.shapes import Shapes
from roles.commands.common import job_of_file
from roles.forecasting.costs import profile
from roles.forecasting.layer_times import timed
from roles.forecasting.plan_forecast import forecast, plainly
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from roles.learning.working_nets import fix
from roles.messages import TRAIN
from runtime.compute.threads import using
from runtime.plan.topology import Topology
from runtime.runs.checking import check

CLUSTER = """
[train]
net = "{net}"
weights = "{weights}"
freeze = {freeze}
batch = {batch}
base_lr = 0.001
momentum = 0.9
max_iter = 1
[train.data]
train = {{ format = "synthetic", shape = [3, {side}, {side}], classes = {classes}, size = {batch} }}
[train.strategy]
preset = "single"
workers = 1
"""
FIRST = "first.safetensors"
WHOLE = "whole"
CLASSES = 10
CLOSE = 0.15  # of what is measured
PASSES = 5  # to time a step, or its layers
PAGE = 4096  # bytes of the smallest array that counts
MEGABYTE = 1e6


@dataclass(frozen=True)
class Task:
    """A net, the side of its images, and the names of the layers of its first half."""

    net: str
    side: int
    batch: int
    half: tuple[str, ...]
    last: str = "fc"

    def ways(self, layers: Sequence[str]) -> dict[str, list[str]]:
        """The frozen layers of each way to train, the whole net first."""
        half = [layer for layer in layers if layer.startswith(self.half)]
        below = [layer for layer in layers if layer != self.last]
        return {WHOLE: [], "first half frozen": half, "all but the last layer frozen": below}


TASKS = (
    Task("resnet20", 32, 128, ("first", "group0", "group1_block0")),
    Task("resnet18(classes=10, image=64)", 64, 16, ("conv1", "bn1", "layer1", "layer2")),
)


@dataclass(frozen=True)
class Way:
    """A way to train, as a user would configure it. `step` is ready to be repeated, and `held` counts
    the bytes of its arrays. `forecast`: the bytes that `plan` shows."""

    job: Job
    topology: Topology
    step: Callable[[], object]
    held: int
    forecast: int

    def predicted(self) -> float:
        """The seconds of a step, from the times of its layers, which are measured now."""
        times = timed(self.job, [self.job.batch], iterations=PASSES)
        table = profile(Shapes(plainly(self.topology)), times.seconds)
        return float(table["single/train"]["mean"])


def main(arguments: list[str] | None = None) -> int:
    """Measure all ways of each net and write the results. Returns 1 if a prediction is wrong."""
    parser = parser_of("frozen", __doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {}
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder, using(given.threads):
            name = task.net.partition("(")[0]
            records[name] = measured(task, Path(folder), given)
    print("results:", *write(given.results, "frozen", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def measured(task: Task, folder: Path, given: argparse.Namespace) -> Record:
    """Measure the ways of one net, and compare them with the whole net and with `plan`."""
    record = Record(f"{task.net}, batch {task.batch}, threads: {given.threads}", status="passed")
    write_first_weights(task, folder / FIRST)
    ways = {
        name: prepared(task, frozen, folder) for name, frozen in task.ways(layers_of(task)).items()
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    predicted: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, way in ways.items():
            taken[name].append(seconds_of(way.step, repeats=PASSES))
            predicted[name].append(way.predicted())
    times, forecasts = medians(taken), medians(predicted)
    record.facts = {"rounds": given.rounds}
    record.table(
        "Seconds and megabytes of a step, and its time as a part of the whole net's",
        "step", "seconds", "predicted", "part", "predicted", "megabytes", "predicted",
    )  # fmt: skip
    for name, way in ways.items():
        parts = [ratio(side[name], side[WHOLE]) for side in (taken, predicted)]
        record.row(
            name, times[name], forecasts[name], *parts, way.held / MEGABYTE, way.forecast / MEGABYTE
        )
    for name, _, _, part, foreseen, held, shown in record.tables[-1].rows:
        for what, error in (("part of the time", foreseen / part), ("bytes", shown / held)):
            record.judge(f"{name}: predicted {what}, relative error", abs(error - 1), most=CLOSE)
    return record


def layers_of(task: Task) -> list[str]:
    """The names of the layers with parameters, first to last."""
    return list(_net_of(task).params)


def write_first_weights(task: Task, path: Path) -> None:
    """Write a file with the parameters that the net begins with."""
    net = _net_of(task)
    write_weights(path, net.initial_blobs(), net.spec)


def _net_of(task: Task) -> Net:
    spec = load_net(task.net)
    return Net(
        spec, TRAIN, ops=get_backend("numpy"), batch=1, input_shape=(3, task.side, task.side)
    )


def prepared(task: Task, frozen: Sequence[str], folder: Path) -> Way:
    """The way to train with these layers frozen."""
    file = folder / "cluster.toml"
    text = CLUSTER.format(
        net=task.net, weights=FIRST, freeze=list(frozen), batch=task.batch, side=task.side,
        classes=CLASSES,
    )  # fmt: skip
    file.write_text(text, "utf-8")
    topology = check(file).placement.topology
    job = job_of_file(file, ())
    step, held = counted(job)
    return Way(job, topology, step, held, sum(forecast(topology).memory["single"].values()))


def counted(job: Job) -> tuple[Callable[[], object], int]:
    """The step of a job, and the bytes of the arrays that it allocates and keeps."""
    made(replace(job))()  # compiles all kernels
    gc.collect()
    tracemalloc.start()
    try:
        step = made(replace(job))  # reads its frozen layers itself
        step()
        gc.collect()
        traces = tracemalloc.take_snapshot().traces
    finally:
        tracemalloc.stop()
    return step, sum(trace.size for trace in traces if trace.size >= PAGE)


def made(job: Job) -> Callable[[], object]:
    """The step of the preset `single`, with images that are made up."""
    net = job.build(TRAIN, "all", job.shapes(TRAIN, job.source(TRAIN)))
    fix(net, job)
    store = ParameterStore(
        job.learned(net.params), net.initial_blobs(), job.solver_spec, job.backend_ops,
        in_place=True,
    )  # fmt: skip
    return step_of(net, made_up(net, CLASSES), store)


if __name__ == "__main__":
    sys.exit(main())

"""The part `real` of `tuning`: runs of real work on this machine, which predict themselves, and
then are measured.

A run predicts from its first seconds, in which it also learns how long messages take
(docs/tuning.md). The seconds after that are measured by its progress reports. So the bar applies to
later time than the prediction learnt from. A row whose groups were changed during the run is
predicted before such groups ever ran. Each row also has the prediction by service times alone,
without anything learnt.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import roles
import runtime
from benchmarks.helpers.report import Record
from roles.messages import Done, Regroup
from runtime import Event, Topology

# of training that are measured after a prediction: the whole part takes about eleven minutes
SECONDS = 8.0
LEAST = 8  # iterations in these seconds
BAR = 0.10  # median error
SOLVER = """
net: "{net}.prototxt"
base_lr: 0.001 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
max_iter: 1000000 display: {display} snapshot: 0 snapshot_after_train: false
"""
DIGITS = {"format": "digits", "split": "train"}


class Net(NamedTuple):
    """A net, its data, the images of an iteration, and the iterations between two reports."""

    name: str
    data: Mapping[str, Any]
    batch: int
    display: int


def made_up(shape: Sequence[int], classes: int) -> dict[str, Any]:
    """A table of noise images: only their shape matters here."""
    return {"format": "synthetic", "shape": list(shape), "classes": classes, "size": 512}


NETS = {
    "LeNet": Net("lenet", DIGITS, 64, 10),
    "CIFAR-10 quick": Net("cifar10_quick", made_up((3, 32, 32), 10), 64, 5),
    "CaffeNet": Net("caffenet", made_up((3, 227, 227), 100), 16, 1),
}
STRATEGIES: tuple[dict[str, Any], ...] = (
    {"preset": "single"},
    {"preset": "sync", "workers": 2},
    {"preset": "sync", "workers": 4},
    {"preset": "async", "workers": 2},
    {"preset": "async", "workers": 4},
    {"preset": "replicas", "workers": 2},
    {"preset": "replicas", "workers": 4},
    {"preset": "parameter-server", "workers": 2},
)
LIVE = {"preset": "omnivore", "workers": 4, "groups": 1, "live": True}


class Compared(NamedTuple):
    """Seconds an iteration: predicted, by service times alone, of each message, and measured."""

    predicted: float
    work: float
    message: float
    measured: float

    @property
    def error(self) -> float:
        """The error of the prediction, relative to the measurement."""
        return self.predicted / self.measured - 1


def real(
    record: Record, cycles: int, seconds: float = SECONDS, nets: Sequence[str] = tuple(NETS)
) -> None:
    """Measure every net with every strategy, and with groups that change. `cycles`, which sets the
    length of simulations, is not used."""
    del cycles
    record.table(
        "Milliseconds an iteration",
        "net",
        "preset",
        "workers",
        "groups",
        "predicted from",
        "predicted",
        "measured",
        "error %",
        "by service times alone",
        "its error %",
        "of each message",
    )
    errors = []
    alone = []
    for name in nets:
        rows = [
            (strategy, "its first seconds", strategy.get("groups"), ()) for strategy in STRATEGIES
        ]
        rows.append((LIVE, "the groups before", 1, (2, 4)))
        for strategy, source, groups, further in rows:
            with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
                found = asyncio.run(observed(NETS[name], strategy, seconds, further, Path(folder)))
            shape = strategy["preset"], strategy.get("workers", 1)
            for count, each in zip((groups, *further), found, strict=False):
                said = "its first seconds" if count == groups else source
                errors.append(abs(each.error))
                alone.append(abs(each.work / each.measured - 1))
                record.row(
                    name,
                    *shape,
                    count or "",
                    said,
                    1e3 * each.predicted,
                    1e3 * each.measured,
                    100 * each.error,
                    1e3 * each.work,
                    100 * (each.work / each.measured - 1),
                    1e3 * each.message,
                )
            if len(found) < 1 + len(further):
                record.fail(
                    f"{name}, {shape[0]}: found {len(found)} predictions, expected "
                    f"{1 + len(further)}"
                )
    if errors:
        judged(record, median(errors), max(errors), median(alone))


def judged(record: Record, middle: float, worst: float, alone: float) -> None:
    """Record how good the predictions were. The record fails if the median error is too large."""
    record.facts |= {"median error %": 100 * middle, "largest error %": 100 * worst}
    record.facts["median error of service times alone %"] = 100 * alone
    if middle > BAR:
        record.fail(f"median error {100 * middle:.1f} %, at most {100 * BAR:g} %")


def topology_of(net: Net, strategy: Mapping[str, Any], folder: Path) -> Topology:
    """The topology of a run without tests and checkpoints, which trains until it is ended. Writes
    its solver into the folder."""
    solver = folder / "solver.prototxt"
    solver.write_text(SOLVER.format(net=net.name, display=net.display))
    options = {
        "net": net.name,
        "batch": net.batch,
        "data": {"train": net.data},
        "strategy": dict(strategy),
    }
    return roles.training({**options, "solver": str(solver)})


async def observed(
    net: Net, strategy: Mapping[str, Any], seconds: float, further: Sequence[int], folder: Path
) -> list[Compared]:
    """The run's first prediction and the time that followed; the same for each further number of
    groups."""
    found: list[Compared] = []
    left = list(further)
    topology = topology_of(net, strategy, folder)
    async with runtime.launch(topology, directory=folder, machine=[{"threads": 1}]) as run:
        predicted = None
        reports = list[Event]()
        async for event in run.events():
            if (
                event.name == "prediction"
                and predicted is None
                and (not found or not event["measured_seconds"])
            ):
                predicted = event
                reports = []
            elif event.name == "progress":
                reports.append(event)
            compared = predicted and after(predicted, reports, seconds)
            if compared:
                found.append(compared)
                if not left:
                    break
                predicted = None
                await run.ask("coordinator", Regroup(groups=left.pop(0)), Done)
        await run.end_now()
    return found


def after(predicted: Event, reports: Sequence[Event], seconds: float) -> Compared | None:
    """Compare a prediction with the reports after it. None if the reports span too short a time."""
    if len(reports) < 2:
        return None
    first = reports[0]
    last = reports[-1]
    iterations = _iteration(last) - _iteration(first)
    if last.time - first.time < seconds or iterations < LEAST:
        return None
    told = predicted["predicted_seconds"], predicted["work_seconds"], predicted["message_seconds"]
    return Compared(*told, (last.time - first.time) / iterations)


def _iteration(progress: Event) -> int:
    return int(progress["iteration"])

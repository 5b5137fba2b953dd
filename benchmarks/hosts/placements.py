"""Twelve placements on two to nine machines, for `benchmarks.hosts`: the actors of each machine and
the time of an iteration as `plan` predicts them, and as a run has them.

The machines are network namespaces with kinds: a cable has the rate of its machine's kind. Actors
compute nothing. Each sleeps as long as its work would take on its machine, by the FLOPs of its
layers (an emulated device). Messages have their real sizes. So two cores are enough for nine
machines.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.helpers.machines import Machine, machines
from benchmarks.helpers.report import Record
from benchmarks.hosts.sides import Ours
from benchmarks.scaling.runs import Processor
from roles import Options, prospects
from roles.base.shapes import Shapes
from roles.forecasting.costs import loads_of
from roles.forecasting.kind_machines import OfKinds, kinds_for
from roles.forecasting.plan_forecast import plainly
from runtime.plan.prospects import Wanted
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import Placement
from runtime.runs.checking import Checked, check

BAR = 0.1  # largest relative difference of the measured from the predicted time
WIRE = 1514 / 1448  # bytes of an Ethernet frame for the bytes of a message in it
# seconds of a cable. More would carry a part of the messages of an iteration at once; with less, the
# cable stands still while a busy processor lets it wait
BURST = 0.004
BATCH = 64
FAST, SLOW = "fast", "slow"
# of the times of work, as Omnivore measured it (D.4.1): without any, groups that begin together stay
# in one another's way
VARIATION = 0.06
SETTLED = 4  # iterations of each group that are not measured
MEASURED = 12  # iterations of each group that are
KIND = """[machine.{name}]
flops = {flops}
share = 1.0
bytes_per_second = {rate}
latency = 0.0002
"""
MACHINE = """[[machine]]
name = "m{number}"
namespace = "{at.namespace}"
address = "{at.address}"
kind = "{kind}"
threads = 1
"""
CLUSTER = """[placement]
kinds = "kinds.toml"
[links]
encryption = "none"
[liveness]
start_seconds = 120.0
heartbeat_seconds = 2.0
standstill_seconds = 1000.0
[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
devices = {{ "*" = "emulated:times.json" }}
[train.data]
train = {{ format = "blank", shape = {shape}, size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}
"""
SOLVER = """net: "{net}.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9
max_iter: 100000 display: 1 snapshot: 0 snapshot_after_train: false
"""


@dataclass(frozen=True)
class Net:
    """The shape of a net's images, and the slow kind of machine for it: FLOP/s, bytes per second.
    The fast kind computes four times as fast and sends twice as fast. An iteration takes tenths of
    a second or more."""

    shape: tuple[int, int, int]
    flops: float
    rate: int

    @property
    def kinds(self) -> dict[str, tuple[float, int]]:
        """Kind -> FLOP/s and bytes per second."""
        return {FAST: (4 * self.flops, 2 * self.rate), SLOW: (self.flops, self.rate)}


NETS = {
    "lenet": Net((1, 28, 28), 5e8, 1_250_000),
    "cifar10_quick": Net((3, 32, 32), 5e9, 5_000_000),
    "caffenet": Net((3, 227, 227), 3e10, 30_000_000),
}


@dataclass(frozen=True)
class Case:
    """A preset and a net on machines of these kinds."""

    net: str
    preset: str
    workers: int
    kinds: tuple[str, ...]
    strategy: str = ""


def _alike(net: str, preset: str, workers: int, count: int, strategy: str = "") -> Case:
    return Case(net, preset, workers, (SLOW,) * count, strategy)


CASES = (
    _alike("lenet", "omnivore", 1, 2),
    _alike("lenet", "sync", 4, 5),
    _alike("lenet", "local-fc-shards", 3, 5),
    _alike("cifar10_quick", "omnivore", 8, 9, "groups = 2"),
    _alike("cifar10_quick", "replicas", 4, 4),
    _alike("cifar10_quick", "mxnet-sync", 3, 3, "servers = 2"),
    _alike("caffenet", "omnivore", 4, 5, "groups = 2"),
    _alike("caffenet", "sync", 3, 4),
    Case("lenet", "omnivore", 2, (FAST, SLOW, SLOW)),
    Case("cifar10_quick", "replicas", 3, (SLOW, FAST, SLOW)),
    Case("cifar10_quick", "omnivore", 6, (FAST, FAST, *[SLOW] * 5), "groups = 2"),
    Case("caffenet", "omnivore", 4, (FAST, SLOW, SLOW, SLOW, FAST), "groups = 2"),
)


def placements(record: Record, turns: int) -> None:
    """Measure all placements, and judge the actors of the machines and the times."""
    del turns  # each placement is started once
    record.facts["machines"] = "network namespaces; veth pairs with the rate of each kind (tbf)"
    record.facts["work"] = "emulated devices, by the FLOPs of the layers and the machine's kind"
    record.table(
        "Seconds of an iteration", "net", "preset", "strategy", "workers", "machines", "as planned",
        "predicted", "measured", "difference", "processor busy",
    )  # fmt: skip
    for case in CASES:
        if problem := measured(record, case):
            record.fail(problem)
    worst = max((abs(row[-2]) for row in record.tables[0].rows), default=0.0)
    record.note(f"the largest difference is {worst:.3f}, at most {BAR}")


def measured(record: Record, case: Case) -> str:
    """Measure one placement and record a row. Returns what is wrong, or ""."""
    rates = [int(8 * WIRE * NETS[case.net].kinds[kind][1]) for kind in case.kinds]
    with (
        machines(len(case.kinds), rates, BURST) as made,
        tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as at,
    ):
        path = write(Path(at), case, made)
        predicted, planned = foretold(path)
        processor = Processor()
        seconds, started = asyncio.run(_run(path, planned))
        busy = processor.busy()
    off = seconds / predicted - 1
    same = homes(started) == homes(planned.placement)
    record.row(
        case.net, case.preset, case.strategy or "-", case.workers, "+".join(_counted(case.kinds)),
        "yes" if same else "NO", predicted, seconds, off, busy,
    )  # fmt: skip
    name = f"{case.preset} with {case.workers} workers, {case.net}"
    if not same:
        return f"MISSED {name}: the run's actors are not on the machines that plan tells"
    return f"MISSED {name}: {off:+.3f} from the prediction, at most {BAR}" if abs(off) > BAR else ""


def write(folder: Path, case: Case, made: Sequence[Machine]) -> Path:
    """Write the cluster.toml of a placement, its catalogue of kinds and its profile."""
    net = NETS[case.net]
    kinds = (
        KIND.format(name=name, flops=flops, rate=rate) for name, (flops, rate) in net.kinds.items()
    )
    (folder / "kinds.toml").write_text("".join(kinds))
    (folder / "solver.prototxt").write_text(SOLVER.format(net=case.net))
    (folder / "times.json").write_text('{"*/*": 0}')  # until it is known who works where
    path = folder / "cluster.toml"
    text = CLUSTER.format(**vars(case) | {"batch": BATCH, "shape": list(net.shape)})
    path.write_text(
        text
        + "".join(
            MACHINE.format(number=number, at=at, kind=kind)
            for number, (at, kind) in enumerate(zip(made, case.kinds, strict=True))
        )
    )
    (folder / "times.json").write_text(json.dumps(profile(check(path, starts=False))))
    return path


def profile(checked: Checked) -> dict[str, Any]:
    """The time of each actor's work on its machine, by the machine's kind."""
    config = checked.loaded.config
    kinds = kinds_for(config, Wanted())
    times = OfKinds(config, kinds, None, checked.placement).times(checked.placement)
    roles = {actor.name: actor.role for actor in checked.placement.topology.actors}
    table: dict[str, Any] = {}
    for name, loads in loads_of(Shapes(plainly(checked.placement.topology))).items():
        for load in loads:
            mean = times.mean(name, roles[name], load.label, load.rows)
            rows = {"rows": load.rows} if load.rows else {}
            table[f"{name}/{load.label}"] = {"mean": mean, "cv": VARIATION, **rows}
    return table | {"*/*": 0}


def foretold(path: Path) -> tuple[float, Checked]:
    """The predicted seconds of an iteration, and the plan."""
    planned = check(path, starts=False)
    assert isinstance(planned.loaded.options, Options)
    found = prospects(
        planned.loaded.config, planned.loaded.options, planned.placement, Wanted()
    ).of_chosen.seconds
    return found, planned


async def _run(path: Path, planned: Checked) -> tuple[float, Placement]:
    """The mean seconds of an iteration of a run, and the placement that the run was started
    with."""
    lead = next(
        actor.options
        for actor in planned.placement.topology.actors
        if actor.name == planned.placement.topology.lead
    )
    groups = len(lead.groups)
    async with Ours(path, held=False) as ours:
        seconds = await ours.settled(SETTLED * groups, MEASURED * groups)
    (directory,) = (file.parent for file in path.parent.glob("runs/*/plan.json"))
    return seconds, RunPlan.read(directory).placement


def homes(placement: Placement) -> dict[str, list[str]]:
    """The actors of each machine."""
    found: dict[str, list[str]] = {}
    for process in placement.processes:
        found.setdefault(process.machine, []).extend(process.actors)
    return {name: sorted(actors) for name, actors in found.items()}


def _counted(kinds: Sequence[str]) -> list[str]:
    return [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]

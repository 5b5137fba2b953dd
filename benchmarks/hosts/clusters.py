"""Clusters for `benchmarks.hosts`: a cluster.toml for a net on several machines, the measured times
of its layers on this machine, and the predicted time of each preset on machines with a core for
each process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.helpers.machines import Machine
from roles.base.shapes import Shapes
from roles.forecasting.costs import Timed
from roles.forecasting.layer_times import table_of, timed_quickly
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.prediction import Network, Times, predict
from roles.options import Options
from roles.planning.planner import job_of
from roles.planning.strategies import PRESETS, preset_called
from runtime.compute.threads import using
from runtime.errors import ConfigError
from runtime.runs.checking import Checked, check

GIGABIT = 10**9  # bits per second, each way
LATENCY = 1e-4  # seconds of a message between two machines, for predictions
SOLVER = """net: "{net}.prototxt" base_lr: {rate} lr_policy: "fixed" momentum: 0.9 weight_decay: {decay}
max_iter: {iterations} display: 1 snapshot: 0 snapshot_after_train: false
"""
CLUSTER = """[links]
encryption = "none"
latency = {latency}
bytes_per_second = {rate}
[liveness]
start_seconds = 300.0
heartbeat_seconds = 2.0
link_seconds = 30.0
standstill_seconds = 1000.0
[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
{train}
[train.data]
{data}
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}
"""
MACHINE = (
    '[[machine]]\nname = "m{number}"\nnamespace = "{at.namespace}"\naddress = '
    '"{at.address}"\ncores = 1\n'
)
EMULATED = '[train.devices]\n"*" = "emulated:times.json"\n'


@dataclass(frozen=True)
class Work:
    """A net, the shape of its images, the batch of all machines together, and the solver's
    rates."""

    net: str
    shape: tuple[int, int, int]
    classes: int
    batch: int
    rate: float
    decay: float


WORKS = {
    "cifar10_quick": Work("cifar10_quick", (3, 32, 32), 10, 128, 0.001, 0.004),
    "lenet": Work("lenet", (1, 28, 28), 10, 128, 0.01, 0.0005),
    "caffenet": Work("caffenet", (3, 227, 227), 1000, 256, 0.01, 0.0005),
}


def cluster(
    folder: Path,
    work: Work,
    made: Sequence[Machine],
    preset: str,
    *,
    times: Mapping[str, Any] | None = None,
    data: str = "",
    train: str = "",
    strategy: str = "",
    iterations: int = 10_000_000,
    bits_per_second: int = GIGABIT,
    tables: str | None = None,
) -> Path:
    """Write the cluster.toml of one worker on each machine, and its solver. `times`: the profile of
    emulated devices, which replace all other devices. `data`, `train` and `strategy`: lines in
    these sections. The solver ends after `iterations`. `tables`: the [[machine]] tables; without
    them `up` itself starts processes in the namespaces."""
    folder.mkdir(parents=True, exist_ok=True)
    solver = SOLVER.format(net=work.net, rate=work.rate, decay=work.decay, iterations=iterations)
    (folder / "solver.prototxt").write_text(solver)
    if times is not None:
        (folder / "times.json").write_text(json.dumps(times))
        train += EMULATED
    text = CLUSTER.format(
        latency=LATENCY,
        rate=bits_per_second // 8,
        net=work.net,
        batch=work.batch,
        train=train,
        data=data or blank(work),
        preset=preset,
        workers=len(made),
        strategy=strategy,
    )
    path = folder / "cluster.toml"
    if tables is None:
        tables = "".join(MACHINE.format(number=number, at=at) for number, at in enumerate(made))
    path.write_text(text + tables)
    return path


def blank(work: Work) -> str:
    """The data line for blank images, of which only the shape is used."""
    return f'train = {{ format = "blank", shape = {list(work.shape)}, size = 65536 }}'


def made_up(work: Work) -> str:
    """The data line for one batch of noise."""
    images = f"shape = {list(work.shape)}, classes = {work.classes}, size = {work.batch}"
    return f'train = {{ format = "synthetic", {images} }}'


def shuffled(data: Mapping[str, Any]) -> str:
    """The data lines for a format and its files, in a new order every epoch."""
    told = ", ".join(f"{key} = {json.dumps(value)}" for key, value in data.items())
    return f"train = {{ {told} }}\nshuffle = true"


def timed_here(path: Path, machines: int) -> Timed:
    """Measure the layers of the cluster's net on one core of this machine, with a worker's rows and
    with the whole batch."""
    loaded = check(path).loaded
    assert isinstance(loaded.options, Options)
    job = job_of(loaded.config, loaded.options)
    with using(1):
        return timed_quickly(job, {-(-job.batch // machines), job.batch})


def profile(checked: Checked, found: Timed) -> dict[str, Any]:
    """The times of the array work of a cluster's actors, from the times of its layers."""
    return table_of(Shapes(plainly(checked.placement.topology), shared_memory=False), found)


def predicted(checked: Checked, found: Timed, bits_per_second: int = GIGABIT) -> float:
    """The predicted seconds of an iteration on machines with a core for each process and cables of
    that rate."""
    placement = checked.placement
    interfaces = {spec.name: spec.machine for spec in placement.processes}
    network = Network(LATENCY, bits_per_second / 8, interfaces)
    times = Times.of_profile(profile(checked, found))
    return predict(placement.topology, times, network, placement.process_of()).seconds


def candidates(folder: Path, work: Work, made: Sequence[Machine]) -> dict[str, Checked]:
    """The presets with several workers whose result equals that of one process, as DDP's does."""
    found: dict[str, Checked] = {}
    for name in PRESETS:
        preset = preset_called(name)
        if not preset.equals_single or preset.alone:
            continue
        try:
            checked = check(cluster(folder / name, work, made, name))
        except ConfigError:
            continue  # the preset does not fit this net, or several machines
        if all(checked.placement.topology != other.placement.topology for other in found.values()):
            found[name] = checked
    return found

"""Runs that really learn, on the virtual clock or in processes, for the parts of
`benchmarks.tuning` about momentum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import roles
from benchmarks.helpers.report import ROOT
from benchmarks.tuning.virtual import learn
from runtime import Actor
from runtime.compute.service_times import FILE, ServiceTimes
from runtime.simulation.cluster import Simulation

DATA = ROOT.parent / "shared" / "data"
Profile = Mapping[str, Any]  # see runtime/compute/service_times.py
SOLVER = """
net: "{net}.prototxt" base_lr: {rate} momentum: {momentum} weight_decay: 0.0005 {policy}
max_iter: {iterations} display: 1 snapshot: 0
"""
CLUSTER = """run.record_service_times = {record}
[[machine]]
threads = 1
[train]
solver = "solver.prototxt"
seed = {seed}
batch = {batch}
[train.data]
train = {data}
shuffle = true
[train.strategy]
preset = "{preset}"
{workers}
"""


@dataclass(frozen=True)
class Learning:
    """The settings of a run: `workers` workers of a preset, with SGD. `decays`: whether the rate
    falls to 0 at `iterations` or stays constant."""

    net: str = "lenet"
    preset: str = "mxnet-async"
    workers: int = 2
    momentum: float = 0.9
    rate: float = 0.02
    batch: int = 64
    iterations: int = 1000
    decays: bool = True

    @property
    def data(self) -> dict[str, Any]:
        """The data table of the net: MNIST for LeNet, CIFAR-10 for the others."""
        if self.net == "lenet":
            folder = DATA / "mnist"
            images, labels = (
                str(folder / f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")
            )
            return {"format": "idx", "images": images, "labels": labels}
        return {
            "format": "cifar10",
            "files": [str(file) for file in sorted((DATA / "cifar10").glob("data_batch_*"))],
        }

    def solver(self, folder: Path) -> Path:
        """Write the solver into a folder. Returns its path."""
        policy = 'lr_policy: "poly" power: 1' if self.decays else 'lr_policy: "fixed"'
        path = folder / "solver.prototxt"
        path.write_text(SOLVER.format(policy=policy, **vars(self)))
        return path


@dataclass
class Learnt:
    """The result of a run: the loss of every iteration in order, and the error if it failed."""

    losses: list[float] = field(default_factory=list)
    failure: str = ""
    staleness: list[float] = field(default_factory=list)

    @property
    def diverged(self) -> bool:
        """Whether the run ended in a loss that is not a number."""
        return "diverged" in self.failure


def missing() -> str:
    """The missing folders of MNIST and CIFAR-10, as text; "" if both are there."""
    lacks = [name for name in ("mnist", "cifar10") if not (DATA / name).is_dir()]
    return f"needs the folders {' and '.join(lacks)} in ../shared/data" if lacks else ""


def virtual(
    wanted: Learning,
    times: Profile,
    seed: int,
    stop: int = 0,
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
) -> Learnt:
    """Run on the virtual clock (`virtual`) with links that take no time. The same seed gives the
    same run. `stop`: end after so many iterations."""
    found = Learnt()
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        strategy = {"preset": wanted.preset} | (
            {} if wanted.preset == "single" else {"workers": wanted.workers}
        )
        options = {
            "net": wanted.net,
            "solver": str(wanted.solver(Path(folder))),
            "batch": wanted.batch,
            "seed": seed,
            "data": {"train": wanted.data, "shuffle": True},
            "strategy": strategy,
        }

        def noted(simulation: Simulation, event: str, fields: dict[str, Any]) -> None:
            if event == "progress":
                found.losses.append(fields["loss"])
                found.staleness.append(fields["staleness"])
                if len(found.losses) == stop:
                    simulation.end()

        drawn = ServiceTimes(times, seed)
        found.failure = learn(roles.training(options), drawn.seconds, noted, prepared=prepared)
    return found


def real(
    wanted: Learning, seed: int, *, record: bool = False
) -> tuple[Learnt, dict[str, list[float]]]:
    """Run in processes of one thread each, as a user starts it. With `record`, also returns the
    service times. Raises RuntimeError if the run failed for another reason than divergence."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        wanted.solver(folder)
        values = {
            "record": str(record).lower(),
            "seed": seed,
            "data": _inline(wanted.data),
            **vars(wanted),
        }
        values["workers"] = "" if wanted.preset == "single" else f"workers = {wanted.workers}"
        (folder / "cluster.toml").write_text(CLUSTER.format(**values))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode and "diverged" not in done.stderr:
            raise RuntimeError(done.stderr or f"exit status {done.returncode}")
        (run,) = (folder / "runs").iterdir()
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        progress = [line for line in lines if line["event"] == "progress"]
        found = Learnt([line["loss"] for line in progress], done.stderr if done.returncode else "")
        found.staleness = [line["staleness"] for line in progress]
        return found, json.loads((run / FILE).read_text()) if record else {}


def _inline(table: Mapping[str, Any]) -> str:
    """A table as TOML."""
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + " }"

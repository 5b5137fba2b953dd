"""Clusters of emulated workers for `benchmarks.scaling`, each with a cluster.toml, run on the
virtual or the real clock."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.helpers.machines import Machine
from benchmarks.helpers.report import ROOT
from runtime.actors.actor import Actor
from runtime.compute.service_times import Recorder
from runtime.plan.program import actor_of
from runtime.runs.checking import check
from runtime.runs.virtual_run import network_of
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, Simulation
from runtime.transport import Limits
from runtime.transport.inproc import Transfer

GIGABIT = 125_000_000  # bytes per second
SOLVER = (
    'net: "net" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: {iterations} display: 1\n'
)
CLUSTER = """{more}
[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
[train.devices]
"*" = "emulated:times.json"
[train.data]
train = {{ format = "blank", shape = {shape}, size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
{strategy}
"""
VIRTUAL = '[simulation]\nclock = "virtual"\nbytes_per_second = {rate}\nlatency = {latency}\n'
TCP = (
    '[links]\ntransport = "tcp"\nencryption = "none"\n[liveness]\nstart_seconds = '
    "120.0\nheartbeat_seconds = 2.0\n"
)
MACHINE = (
    '[[machine]]\nname = "{name}"\nnamespace = "{at.namespace}"\naddress = '
    '"{at.address}"\nthreads = 1\n'
)
PROCESS = '[[process]]\nname = "{name}"\nmachine = "{machine}"\nactors = {actors}\n'
ONE_LAYER = """name: "one_layer"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 64 dim: 3 dim: 50 dim: 50 }} }} }}
layer {{ name: "label" type: "Input" top: "label" input_param {{ shape {{ dim: 64 }} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param {{ num_output: {outputs} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""
INPUTS = 3 * 50 * 50  # of ONE_LAYER


@dataclass
class Wanted:
    """One cluster. `times` is the profile of its devices. `more` goes first in cluster.toml;
    `strategy` ends that section."""

    preset: str
    workers: int
    iterations: int
    net: str = "lenet"
    shape: tuple[int, int, int] = (1, 28, 28)
    batch: int = 64
    times: dict[str, Any] = field(default_factory=lambda: {"*/*": 0})
    strategy: str = ""
    more: str = ""

    def write(self, folder: Path) -> Path:
        """Write the cluster.toml, its solver and its profile. Returns the path of cluster.toml."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "solver.prototxt").write_text(SOLVER.format(iterations=self.iterations))
        (folder / "times.json").write_text(json.dumps(self.times))
        values = {**vars(self), "shape": list(self.shape)}
        path = folder / "cluster.toml"
        path.write_text(CLUSTER.format(**values))
        return path


def one_layer(folder: Path, size: int) -> str:
    """Write a net with one layer of about `size` bytes, so that all parameters travel in one
    message. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "one_layer.prototxt"
    path.write_text(ONE_LAYER.format(outputs=size // 4 // (INPUTS + 1)))
    return str(path)


@dataclass
class Found:
    """The result of a simulated run: its events and every message."""

    journal: Journal
    transfers: list[Transfer]

    def seconds(self) -> list[float]:
        """The seconds of each iteration after the first, from one report to the next."""
        at = [time for time, _, event, _ in self.journal.entries if event == "progress"]
        return [later - earlier for earlier, later in itertools.pairwise(at)]


def simulated(
    cluster: Path,
    prepared: Callable[[dict[str, Actor]], None] = lambda actors: None,
    recorder: Recorder | None = None,
) -> Found:
    """Run a cluster on the virtual clock, in this process. `recorder` receives all array work."""
    checked = check(cluster)
    config = checked.loaded.config
    transfers = list[Transfer]()
    network = network_of(checked.placement, config)
    network.on_transfer = transfers.append
    limits = Limits(config.links.credit_bytes, config.links.max_message_bytes)

    async def main() -> Journal:
        simulation = Simulation(
            checked.placement,
            network=network,
            limits=limits,
            directory=cluster.parent,
            recorder=recorder,
        )
        await simulation.run(lambda spec: actor_of(checked.loaded.program, spec), prepared)
        return simulation.journal

    return Found(run_virtual(main()), transfers)


def on_machines(wanted: Wanted, made: list[Machine], folder: Path) -> Path:
    """Write the cluster.toml of the same cluster, with each process on its own machine."""
    spread = replace(
        wanted, more=TCP + "".join(MACHINE.format(name=f"m{n}", at=at) for n, at in enumerate(made))
    )
    for number, spec in enumerate(check(wanted.write(folder)).placement.processes):
        spread.more += PROCESS.format(
            name=spec.name, machine=f"m{number}", actors=json.dumps(spec.actors)
        )
    return spread.write(folder)


class Processor:
    """The use of this machine's cores. If they have no idle time, a measurement on them does not
    show the network."""

    def __init__(self) -> None:
        self._before = self._ticks()

    def busy(self) -> float:
        """The part of all cores' time since this object was made that was not idle."""
        idle, whole = (now - then for now, then in zip(self._ticks(), self._before, strict=True))
        return 1 - idle / whole if whole else 0.0

    @staticmethod
    def _ticks() -> tuple[int, int]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)


def real(cluster: Path, seconds: float = 600.0) -> list[dict[str, Any]]:
    """Run a cluster in processes, as a user does. Returns its events. Raises RuntimeError with the
    run's error if it fails."""
    command = [sys.executable, "-m", "runtime", "up", cluster.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=cluster.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr or f"exit status {done.returncode}")
    newest = max((cluster.parent / "runs").glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]

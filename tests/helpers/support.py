"""Shared helpers of the journeys: a training configuration as text, a run on virtual time, and a
run as a user starts it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nets.definition.spec import ZOO
from nets.files.checkpoint import load as load_checkpoint
from ops import Array
from roles import ROLES, Options, plan
from roles.planning.strategies import PRESETS
from roles.presets.request import SHAPE
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.plan.topology import ActorSpec, Topology
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from runtime.transport.inproc import InprocNetwork

ROOT = Path(__file__).resolve().parents[2]
# packages that every run of a test can import, as pip would install them
SITE = ROOT / "tests" / "site"

SOLVER = """
net: "lenet.prototxt"
base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "inv" gamma: 0.0001 power: 0.75
max_iter: {iterations} display: 1 snapshot: 0
"""

# A layer of the conv phase that makes a worker's pass take that long. Without it, a run that goes
# on until it is ended would take all cores.
PACE = """layer { name: "pace" type: "Paced" bottom: "pool2" top: "pool2" include { phase: TRAIN }
  python_param { param_str: '{"seconds": <seconds>}' } }
"""

CLUSTER = """
[train]
solver = "solver.prototxt"
batch = {batch}
seed = {seed}
precision = "exact"
[train.data]
train = {{ format = "digits", split = "train" }}
{test}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""


def configure(
    directory: Path,
    preset: str,
    *,
    workers: int = 1,
    groups: int = 1,
    fan_in: int = 2,
    iterations: int = 10,
    seed: int = 1,
    test: bool = False,
    batch: int = 16,
    paced: bool = False,
    pace: float = 0.1,
    more: str = "",
) -> Path:
    """Write cluster.toml and solver.prototxt into a folder; return the path of cluster.toml. `pace`
    is the time of a pass of a `paced` net, in seconds.
    """
    directory.mkdir(parents=True, exist_ok=True)
    solver = SOLVER.format(iterations=iterations)
    if paced:
        conv, ip1, fc = (ZOO / "lenet.prototxt").read_text().partition('layer {\n  name: "ip1"')
        (directory / "paced.prototxt").write_text(
            f"{conv}{PACE.replace('<seconds>', str(pace))}{ip1}{fc}"
        )
        solver = solver.replace("lenet.prototxt", "paced.prototxt")
    (directory / "solver.prototxt").write_text(solver)
    testing = 'test = { format = "digits", split = "test" }' if test else ""
    count = 1 if preset == "single" else workers
    text = CLUSTER.format(preset=preset, workers=count, seed=seed, test=testing, batch=batch)
    # some presets do not use all keys of a grid over presets
    used = PRESETS[preset].uses if preset in PRESETS else SHAPE
    text += f"groups = {groups}\n" * ("groups" in used) + f"fan_in = {fan_in}\n" * (
        "fan_in" in used and fan_in != 2
    )
    path = directory / "cluster.toml"
    path.write_text(more + text)
    return path


@dataclass(frozen=True)
class Simulated:
    """The events and the checkpoint's arrays of a run on virtual time."""

    journal: Journal
    arrays: dict[str, Array]

    def losses(self) -> list[float]:
        """The loss of every iteration."""
        return [fields["loss"] for fields in self.journal.of("progress")]


def train(
    cluster: Path,
    *,
    service_time: Callable[[str, str], float] | None = None,
    network: InprocNetwork | None = None,
    checkpoint: bool = True,
) -> Simulated:
    """Train by cluster.toml on one event loop and virtual time. Without `checkpoint`, no checkpoint
    is read.
    """
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    placement = place(plan(loaded.config, loaded.options), loaded.config)
    directory = cluster.parent
    journal = run_virtual(
        simulate(placement, ROLES, service_time=service_time, network=network, directory=directory)
    )
    arrays: dict[str, Array] = {}
    if checkpoint:
        arrays, _ = load_checkpoint(directory / journal.of("checkpoint")[-1]["file"])
    return Simulated(journal, arrays)


def with_actor(topology: Topology, name: str, options: Any) -> Topology:
    """Add one actor, of the role of its name, that is linked to the coordinator."""
    actors = (*topology.actors, ActorSpec(name, name, options))
    links = (*topology.links, (name, "coordinator"))
    return dataclasses.replace(topology, actors=actors, links=links)


def runtime_command(*arguments: str | Path) -> list[str]:
    """The words of `python -m runtime ...`, as a user types it."""
    return [sys.executable, "-m", "runtime", *map(str, arguments)]


def environment() -> dict[str, str]:
    """The environment of a run that a test starts: the checkout is importable, and BLAS has one
    thread.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), str(SITE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}


def run_up(
    cluster: Path, *arguments: str, timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    """Run `up` to its end in the folder of cluster.toml."""
    return subprocess.run(
        runtime_command("up", cluster.name, *arguments),
        cwd=cluster.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def in_the_middle(cluster: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `up` to iteration 20; yield the process and its output so far. It is interrupted at the
    end of the block, unless it has ended.
    """
    with subprocess.Popen(
        runtime_command("up", cluster.name, *arguments),
        cwd=cluster.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("progress") and " 20/" in line:
                break
        try:
            yield process, said
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


def run_directory(cluster: Path) -> Path:
    """The newest run directory next to cluster.toml."""
    return max((cluster.parent / "runs").glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)


def events(directory: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind in the journal."""
    lines = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def get(url: str) -> str:
    """The text of a metrics page."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: str = answer.read().decode()
        return body


def parent_of(pid: int) -> int:
    """The pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

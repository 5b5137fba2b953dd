"""`python -m benchmarks.survival`: what it costs to be able to survive, while nobody dies.

Two workers with the whole net each (`replicas`) train LeNet on the digits, and CaffeNet on synthetic images. Three
kinds of runs take turns: `recovery.restarts = 0`; `restarts = 3`, which goes on from a living worker's memory after a
death, so that updates wait until every sum of an iteration is there; and the same with checkpoints that come far more
often than anybody would have them, so that what one costs can be told. Speeds leave out the first fifth of a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import ROOT, Record, machine, write
from benchmarks.survivor import environment

IMAGES_LEAST = 0.98  # of a run's that could not survive
EXPOSED_MOST = 0.01  # of a run's seconds, in which training waits for checkpoints
EVERY = 300  # seconds, as docs/recovery.md has it
OFF, ON = "", "[recovery]\nrestarts = 3\n"
SAVES = ON + "[checkpoint]\nseconds = {seconds:g}\n"
CLUSTER = """program = "roles"
[train]
net = "{net}"
solver = "solver.prototxt"
seed = 1
batch = {batch}
[train.data]
train = {data}
[train.strategy]
preset = "replicas"
workers = 2
"""
SOLVER = (
    'base_lr: 0.001 momentum: 0.9 lr_policy: "fixed" max_iter: {iterations} display: {display} snapshot: 0\n'
    "snapshot_after_train: false\n"
)


@dataclass(frozen=True)
class Net:
    """What is trained, for how long, how often it is saved by time."""

    name: str
    batch: int
    data: str
    iterations: int
    display: int
    seconds: float


NETS = {
    "lenet": Net("lenet", 64, '{ format = "digits", split = "train" }', 400, 20, 2.0),
    "caffenet": Net("caffenet", 64, '{ format = "synthetic", shape = [3, 227, 227], size = 256 }', 24, 1, 8.0),
}


@dataclass(frozen=True)
class Ran:
    """Of one run: images a second, the `seconds` and the iterations `done` that count, the checkpoints among them, and
    the seconds that training waited for each."""

    images: float
    seconds: float
    done: int
    checkpoints: int
    exposed: float


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. 1: a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(NETS), default=list(NETS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iterations", type=int, help="of each run, instead of as many as last some seconds")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {}
    for part in given.parts:
        records[part] = Record(f"{NETS[part].name}: what it costs to be able to survive")
        compare(records[part], NETS[part], given.rounds, given.iterations or NETS[part].iterations)
    print("results:", *write(given.results, "survival", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def compare(record: Record, net: Net, rounds: int, iterations: int) -> None:
    """Runs in turns. A checkpoint costs the seconds by which its run took longer, of which some are exposed."""
    headers = ("restarts = 0", "restarts = 3", "ratio", "and saves", "times", "exposed s each", "s each")
    record.table(f"Images a second, batch {net.batch}", "round", *headers)
    ratios, exposed, costs = [], [], []
    train(net, 2, OFF)  # compiles what is not compiled yet
    for number in range(rounds):
        kinds = (OFF, ON, SAVES.format(seconds=net.seconds))
        found = {kind: train(net, iterations, kind) for kind in (kinds if number % 2 else kinds[::-1])}
        off, on, saves = (found[kind] for kind in kinds)
        ratios.append(on.images / off.images)
        exposed.append(saves.exposed)
        costs.append(max(0.0, saves.seconds - saves.done * net.batch / on.images) / max(1, saves.checkpoints))
        row = off.images, on.images, ratios[-1], saves.images, saves.checkpoints, exposed[-1], costs[-1]
        record.row(number + 1, *row)
    every = f"of a run with a checkpoint every {EVERY} s"
    record.judge("images a second, of those of a run that could not survive", median(ratios), least=IMAGES_LEAST)
    record.judge(f"share {every} that training waits for them", median(exposed) / EVERY, most=EXPOSED_MOST)
    record.judge(f"share {every} that they cost in all", median(costs) / EVERY, most=1 - IMAGES_LEAST)
    record.status = "passed" if record.status == "running" else record.status


def train(net: Net, iterations: int, more: str) -> Ran:
    """One run to its end, with `more` in its cluster.toml, read from its journal."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as name:
        folder = Path(name)
        (folder / "cluster.toml").write_text(CLUSTER.format(net=net.name, batch=net.batch, data=net.data) + more)
        (folder / "solver.prototxt").write_text(SOLVER.format(iterations=iterations, display=net.display))
        command = [sys.executable, "-m", "runtime", "up"]
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"a run of {net.name} ended with {done.returncode}:\n{done.stderr}")
        (journal,) = (folder / "runs").glob("*/events.jsonl")
        return ran(net.batch, [json.loads(line) for line in journal.read_text().splitlines()])


def ran(batch: int, events: list[dict[str, Any]]) -> Ran:
    """What the journal of a run says of it."""
    told = [event for event in events if event["event"] == "progress"]
    first, last = told[len(told) // 5], told[-1]
    seconds = last["elapsed_seconds"] - first["elapsed_seconds"]
    done = last["iteration"] - first["iteration"]
    saved = [event["exposed_seconds"] for event in events if event["event"] == "checkpoint" and event["t"] > first["t"]]
    speed = batch * done / seconds if done else 0.0
    return Ran(speed, seconds, done, len(saved), sum(saved) / max(1, len(saved)))


if __name__ == "__main__":
    sys.exit(main())

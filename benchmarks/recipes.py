"""`python -m benchmarks.recipes`: whether a recipe of today beats the solver that the zoo ships.

resnet20 learns the first 40 000 training images of CIFAR-10 for as many epochs by
`train.recipe = "cifar"` and by the zoo's solver, and is scored on the other 10 000 after each epoch.
The solver is taken as it is, and with its steps moved to the same parts of the shorter run. The
recipe counts with its last score; a solver counts with its best one, which favours it. Accuracy does
not depend on the load of the machine, so the runs may share it with other work. The keys of
[liveness] let a run wait for minutes.

A run takes some 30 minutes of two cores; `--precision bf16` takes 0.6 of that on a processor with
AMX. Each finished run is kept in `recipes.jsonl`, and the folder beside it holds the others' runs:
if the command was cut off, it resumes the last one from its newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.tuning.kept import Kept

FILE = ROOT / "runs" / "recipes.jsonl"
PRECISION = "fast"
BAR = 0.015  # of accuracy, between the recipe and the best solver
SEEDS = (1, 2, 3)
TRAINED, SCORED = 4, 5  # batches of CIFAR-10 with 10 000 images each: 1 to 4, and 5
ITERATIONS_OF_AN_EPOCH = TRAINED * 10_000 / 128
CLUSTER = """
[train]
net = "resnet20"
batch = 128
epochs = {epochs}
test_epochs = 1
precision = "{precision}"
{keys}
[train.data]
train = {{ format = "cifar10", files = {train} }}
test = {{ format = "cifar10", files = {test} }}
shuffle = true
[train.strategy]
preset = "single"
workers = 1
[checkpoint]
seconds = 60
[liveness]
missed = 400
progress_seconds = 600
standstill_seconds = 1200
"""
SOLVER = """net: "resnet20" base_lr: 0.1 momentum: 0.9 weight_decay: 0.0001 lr_policy: "multistep"
gamma: 0.1 stepvalue: {first} stepvalue: {second} max_iter: {last} display: 100 test_iter: 100
test_interval: 1000 snapshot: 0
"""
HALF, THREE_QUARTERS = 0.5, 0.75  # of the published run, where the rate falls


@dataclass(frozen=True)
class Way:
    """A way to train: its name, its keys of [train], and whether the last score counts, or the
    best."""

    name: str
    keys: str
    last: bool = False


RECIPE = Way("recipe cifar", 'recipe = "cifar"', last=True)
AS_IT_IS = Way("the zoo's solver", 'solver = "resnet20_solver"')
MOVED = Way("the zoo's solver, its steps moved", 'solver = "solver.prototxt"')
WAYS = (RECIPE, AS_IT_IS, MOVED)


def main(arguments: list[str] | None = None) -> int:
    """Train, score and write the results. Returns 1 if the recipe misses its bar."""
    parser = parser_of("recipes", __doc__)
    parser.add_argument("--cifar10", type=Path, required=True, help="folder of the binary batches")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--epochs", type=float, default=30.0)
    parser.add_argument("--precision", default=PRECISION, help="train.precision of all runs")
    parser.add_argument("--kept", type=Path, default=FILE, help="file of the finished runs")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    kept = Kept(given.kept)
    found: dict[Way, list[float]] = {way: [] for way in WAYS}
    for seed in given.seeds:
        for way in WAYS:
            scores = _scores(way, seed, given, kept)
            found[way].append(scores[-1] if way.last else max(scores))
            print(f"{way.name}, seed {seed}: {found[way][-1]:.4f}", flush=True)
    record = judged(found, given.seeds, given.epochs)
    record.facts["precision"] = given.precision
    record.facts["runs are from commits"] = ", ".join(sorted(kept.origins))
    print("results:", *write(given.results, "recipes", machine(), {"resnet20": record}))
    return int(record.status == "failed")


def judged(found: dict[Way, list[float]], seeds: list[int], epochs: float) -> Record:
    """Compare the recipe with the best solver, by the means over the seeds."""
    record = Record(f"resnet20, {epochs:g} epochs of 40 000 images", status="passed")
    record.table("Accuracy on the other 10 000 images", "way", *map(str, seeds), "mean")
    means = {way: mean(scores) for way, scores in found.items()}
    for way, scores in found.items():
        record.row(way.name, *scores, means[way])
    rival = max((way for way in WAYS if way is not RECIPE), key=means.__getitem__)
    more = means[RECIPE] - means[rival]
    text = (
        f"the recipe has {100 * more:+.2f} points of accuracy compared with {rival.name}, bar at "
        f"least {100 * BAR:+.1f}"
    )
    if more < BAR:
        record.fail(f"MISSED {text}")
    else:
        record.note(text)
    return record


def _scores(way: Way, seed: int, given: argparse.Namespace, kept: Kept) -> list[float]:
    """The accuracy after each epoch."""
    name = f"resnet20, {way.name}, {given.epochs:g} epochs, seed {seed}"
    if given.precision != PRECISION:
        name += f", {given.precision}"
    known: list[float] | None = kept.get(name)
    if known is None:
        folder = given.kept.with_suffix("") / re.sub(r"\W+", "-", name)
        known = _trained(way, seed, given, folder.resolve())
        kept.put(name, known)
        shutil.rmtree(folder)
    return known


def _trained(way: Way, seed: int, given: argparse.Namespace, folder: Path) -> list[float]:
    """Train once with `up`, as a user would, or resume a run of `folder` that was cut off. Raises
    CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    at = given.cifar10.resolve()
    files = [str(at / f"data_batch_{number}.bin.gz") for number in range(1, SCORED + 1)]
    text = CLUSTER.format(
        epochs=given.epochs,
        keys=way.keys,
        precision=given.precision,
        train=files[:TRAINED],
        test=files[TRAINED:],
    )
    (folder / "cluster.toml").write_text(text)
    last = given.epochs * ITERATIONS_OF_AN_EPOCH
    steps = (round(share * last) for share in (HALF, THREE_QUARTERS, 1.0))
    values = dict(zip(("first", "second", "last"), steps, strict=True))
    (folder / "solver.prototxt").write_text(SOLVER.format(**values))
    saved = max(folder.glob("runs/*/*.safetensors"), key=_when, default=None)
    _up(folder, "--set", f"train.seed={seed}", *(["--resume", str(saved.parent)] if saved else []))
    scores = dict[int, float]()  # of a run and those that it resumed, by iteration
    for events in sorted(folder.glob("runs/*/events.jsonl"), key=_when):
        told = map(json.loads, events.read_text("utf-8").splitlines())
        scores |= {each["iteration"]: each["accuracy"] for each in told if each["event"] == "test"}
    return [scores[iteration] for iteration in sorted(scores)]


def _up(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "runtime", "up", "cluster.toml", *words]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)


def _when(path: Path) -> float:
    """When a file was last written, in seconds of the epoch."""
    return path.stat().st_mtime


if __name__ == "__main__":
    sys.exit(main())

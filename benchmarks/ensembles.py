"""`python -m benchmarks.ensembles`: whether nets that differ only in their seed are right more often
together than alone.

For every seed, `up` trains the same net on the same images. Then `test` scores all these nets and
their ensemble on all test images, as a user would. The ensemble has to be right more often than the
mean of its members.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write

CLUSTER = """
[train]
net = "{net}"
solver = "{solver}"
max_iter = {iterations}
[train.data]
train = {train}
test = {test}
shuffle = true
[train.strategy]
preset = "single"
workers = 1
[checkpoint]
seconds = 0
"""
MNIST = {"train": "train", "test": "t10k"}
CIFAR10 = {
    "train": [f"data_batch_{number}.bin.gz" for number in range(1, 6)],
    "test": ["test_batch_10000.bin.gz"],
}


@dataclass(frozen=True)
class Task:
    """A net and its solver from the zoo, the iterations, and the data of each phase as TOML."""

    net: str
    solver: str
    iterations: int
    train: str
    test: str


def main(arguments: list[str] | None = None) -> int:
    """Train, test and write the results. Returns 1 if an ensemble is not better than the mean of
    its members."""
    parser = parser_of("ensembles", __doc__)
    parser.add_argument(
        "--mnist", type=Path, help="folder of MNIST's IDX files; without it, the digits that ship"
    )
    parser.add_argument(
        "--cifar10", type=Path, help="folder of CIFAR-10's binary batches; without it, only LeNet"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--lenet-iterations", type=int, default=300)
    parser.add_argument("--cifar10-iterations", type=int, default=500)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", choices=("lenet", "cifar10_quick"), help="measure one net")
    given = parser.parse_args(arguments)
    failed = False
    for task in tasks(given):
        if given.only in (None, task.net):
            record = measured(task, given.seeds)
            print("results:", *write(given.results, "ensembles", machine(), {task.net: record}))
            failed |= record.status == "failed"
    return int(failed)


def tasks(given: argparse.Namespace) -> list[Task]:
    """LeNet, and CIFAR-10 quick if there is data for it."""
    digits = [f'{{ format = "digits", split = "{split}" }}' for split in ("train", "test")]
    solver = "lenet_digits_solver"
    if given.mnist is not None:
        digits = [_mnist(given.mnist, phase) for phase in MNIST]
        solver = "lenet_solver"
    found = [Task("lenet", solver, given.lenet_iterations, *digits)]
    if given.cifar10 is not None:
        folder = given.cifar10.resolve()
        images = [
            f'{{ format = "cifar10", files = {[str(folder / name) for name in names]} }}'
            for names in CIFAR10.values()
        ]
        found.append(Task("cifar10_quick", "cifar10_quick", given.cifar10_iterations, *images))
    return found


def _mnist(folder: Path, phase: str) -> str:
    images, labels = (
        str(folder.resolve() / f"{MNIST[phase]}-{kind}-ubyte.gz")
        for kind in ("images-idx3", "labels-idx1")
    )
    return f'{{ format = "idx", images = "{images}", labels = "{labels}" }}'


def measured(task: Task, seeds: list[int]) -> Record:
    """Train one task with each seed, and compare the ensemble with its members."""
    record = Record(task.net, status="passed")
    with tempfile.TemporaryDirectory() as folder:
        files = [_trained(task, seed, Path(folder)) for seed in seeds]
        found = json.loads(_runtime(folder, "test", *files, "cluster.toml", "--json"))
    record.facts = {
        "iterations": task.iterations,
        "test images": found["images"],
        "data": "seeds differ in first parameters and in the order of images",
    }
    record.table(f"{task.net} on all test images", "seed", "accuracy", "loss")
    members = [each["scores"] for each in found["members"]]
    for seed, scores in zip(seeds, members, strict=True):
        record.row(seed, scores["accuracy"], scores["loss"])
    concluded(record, members, found["scores"])
    return record


def concluded(record: Record, members: list[dict[str, float]], ensemble: dict[str, float]) -> None:
    """Add the means and the ensemble, and compare them."""
    means = {name: mean(scores[name] for scores in members) for name in ("accuracy", "loss")}
    record.row("mean", means["accuracy"], means["loss"])
    record.row("ensemble", ensemble["accuracy"], ensemble["loss"])
    more = ensemble["accuracy"] - means["accuracy"]
    text = f"the ensemble has {100 * more:+.2f} points of accuracy compared with the mean"
    if more > 0:
        record.note(text)
    else:
        record.fail(f"{text}, expected more than 0")


def _trained(task: Task, seed: int, folder: Path) -> str:
    """The checkpoint that `up` saves at the end of its run."""
    values: dict[str, Any] = vars(task)
    (folder / "cluster.toml").write_text(CLUSTER.format(**values))
    run = f"seed-{seed}"
    settings = [f"train.seed={seed}", f"run.directory={run}", f"run.name={run}"]
    _runtime(folder, "up", *(word for each in settings for word in ("--set", each)))
    return str(max(folder.glob(f"{run}/*/checkpoint-*.safetensors")))


def _runtime(folder: str | Path, *words: str) -> str:
    """The output of a command, which runs in this folder. Raises CalledProcessError."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "runtime", *words]
    ended = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())

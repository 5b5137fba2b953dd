"""`python -m benchmarks.precision`: whether nets learn as well with fast convolutions, and with
bfloat16, as with exact ones.

For every seed, the same net, first parameters and order of images are trained with precision
"exact", "fast", "bf16" where this processor has it and, with `--numpy`, by plain NumPy. Then the
share of correct test images counts. A difference is compared with its own standard error over the
seeds. It is also compared with the effect of changing the last bit of the first parameters
("nudged"): a maximum that moves to another pixel sends two trainings different ways.

ResNet-20 compares only "fast" and "bf16", because "exact" takes 25 minutes of a core for 15 epochs.
Its rate falls to 0 in a cosine, since the published rate falls only after 32 000 iterations, and the
accuracy after an update at the full rate says little about the training.

Accuracy does not depend on the load of the machine, so the trainings may share it with other work.
Each finished training is kept in `precision.jsonl`. A command that was cut off continues with the
training that it had not finished, on any machine. A line that is deleted is trained again.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.tuning.kept import Kept

FILE = ROOT / "benchmarks" / "precision.jsonl"
# a difference of shares that never fails a precision: less than two images of the digits' 359
SLACK = 0.005
NUDGED = "exact, nudged"
CIFAR_TRAIN = ["data_batch_1.bin.gz", "data_batch_2.bin.gz"]
# ten thousand images: two good nets differ by 1 % on a thousand of them
CIFAR_TEST = ["data_batch_3.bin.gz"]


@dataclass(frozen=True)
class Task:
    """A net and its solver from the zoo, iterations, and the data of each phase.

    `schedule`: the kind of rate schedule that replaces the solver's. `ways`: the only ways to train
    it, the first of them the reference; without them all."""

    net: str
    solver: str
    iterations: int
    train: dict[str, Any]
    test: dict[str, Any]
    schedule: str = "solver"
    ways: tuple[str, ...] = ()


def tasks(cifar10: Path | None, iterations: dict[str, int]) -> list[Task]:
    """LeNet on the digits and, if there is data for them, CIFAR-10 quick and ResNet-20."""
    found = [
        Task(
            "lenet", "lenet_digits_solver", iterations["digits"],
            {"format": "digits", "split": "train"}, {"format": "digits", "split": "test"},
        )
    ]  # fmt: skip
    if cifar10 is not None:
        train, test = (
            {"format": "cifar10", "files": [str(cifar10 / n) for n in of]}
            for of in (CIFAR_TRAIN, CIFAR_TEST)
        )
        found += [
            Task("cifar10_quick", "cifar10_quick", iterations["cifar10_quick"], train, test),
            Task(
                "resnet20", "resnet20", iterations["resnet20"], train, test,
                schedule="cosine", ways=("fast", "bf16"),
            ),
        ]  # fmt: skip
    return [task for task in found if task.iterations]


def main(arguments: list[str] | None = None) -> int:
    """Train, compare and write the results. Returns 1 if a precision learns worse."""
    parser = parser_of("precision", __doc__)
    parser.add_argument(
        "--cifar10", type=Path, help=("folder of CIFAR-10's binary batches; without it only LeNet")
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--digits-iterations", type=int, default=150)
    parser.add_argument("--cifar10-iterations", type=int, default=500, help="of CIFAR-10 quick")
    parser.add_argument(
        "--resnet20-iterations",
        type=int,
        default=0,
        help="of 128 images, of which an epoch has 20 000: 2344 are 15 epochs; by default 0",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--numpy", action="store_true", help="also train with plain NumPy")
    parser.add_argument("--kept", type=Path, default=FILE, help="file of the finished trainings")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    kept = Kept(given.kept)
    records = {}
    iterations = {
        "digits": given.digits_iterations,
        "cifar10_quick": given.cifar10_iterations,
        "resnet20": given.resnet20_iterations,
    }
    for task in tasks(given.cifar10, iterations):
        records[task.net] = compared(task, given, kept)
    paths = write(given.results, "precision", machine(), records)
    print("results:", *paths)
    return int(any(record.status == "failed" for record in records.values()))


def compared(task: Task, given: argparse.Namespace, kept: Kept) -> Record:
    """Train one task with every precision and seed."""
    ways = ways_of(given, task)
    record = Record(task.net, status="passed")
    record.table(f"{task.net}: accuracy after {task.iterations} iterations", "seed", *ways)
    shares: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(given.seeds):
        for way in ways:
            shares[way].append(made(task, way, seed, given.threads, kept))
        record.row(seed, *(of[-1] for of in shares.values()))
    first, *others = ways
    if others:
        record.table(f"Difference from {first}", "precision", "mean", "standard error")
    for way in others:
        apart = [one - other for one, other in zip(shares[way], shares[first], strict=True)]
        error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf
        record.row(way, mean(apart), error)
        if mean(apart) < -2 * error - SLACK:
            record.fail(f"{way} learns worse than {first}")
    record.facts["trainings are from commits"] = ", ".join(sorted(kept.origins))
    return record


def ways_of(given: argparse.Namespace, task: Task) -> list[str]:
    """The precisions of this processor and the other ways to train, the reference first."""
    from ops import lacking

    rounded = ["bf16"] if lacking("cpu", "bf16") is None else []
    found = ["exact", "fast", *rounded, NUDGED, *(["numpy"] if given.numpy else [])]
    return [way for way in found if not task.ways or way in task.ways]


def made(task: Task, way: str, seed: int, threads: int, kept: Kept) -> float:
    """The accuracy of one training, made once."""
    name = f"{task.net}, {way}, {task.iterations} iterations, seed {seed}"
    known: float | None = kept.get(name)
    if known is None:
        known = accuracy(task, backend_of(way, threads), seed, nudge=way == NUDGED)
        kept.put(name, known)
    return known


def backend_of(way: str, threads: int) -> Any:
    """The backend that trains in this way."""
    from ops import get_backend

    if way == "numpy":
        return get_backend("numpy")
    precision = "exact" if way == NUDGED else way
    return get_backend("cpu", threads=threads, precision=precision)


def accuracy(task: Task, ops: Any, seed: int, *, nudge: bool = False) -> float:
    """The share of all test images that the trained net classifies correctly. `nudge`: train from
    parameters that differ in their last bit."""
    from nets import Net, RateSchedule, SolverExtras, load_net, load_solver
    from nets.data import Batches, Transform, batch_of_net, open_source
    from roles.learning.buffers import gradient_buffers
    from roles.learning.parameter_store import ParameterStore
    from roles.workers.single import train

    spec = load_net(task.net)
    net = {}
    batches = {}
    for phase, config in (("TRAIN", task.train), ("TEST", task.test)):
        source = open_source(config, ROOT)
        rows = batch_of_net(spec, phase)
        training = phase == "TRAIN"
        rows = rows if training else math.gcd(rows, len(source))
        transform = Transform.of_net(spec, phase)
        batches[phase] = Batches(
            source, transform, rows, shuffle=training, seed=seed, train=training
        )
        options = {"batch": rows, "input_shape": source.shape, "seed": seed, "memory": "reused"}
        net[phase] = Net(spec, phase, ops=ops, **options)
    extras = SolverExtras(schedule=RateSchedule(task.schedule))
    solver = load_solver(task.solver, {"max_iter": task.iterations}, extras)
    blobs = net["TRAIN"].initial_blobs()
    if nudge:
        blobs = {
            layer: tuple(np.nextafter(blob, np.float32(np.inf)) for blob in of)
            for layer, of in blobs.items()
        }
    store = ParameterStore(net["TRAIN"].params, blobs, solver, ops, in_place=True)
    gradients = gradient_buffers(net["TRAIN"])
    for step in range(task.iterations):
        forward(net["TRAIN"], store, batches["TRAIN"], step)
        train(net["TRAIN"], store, gradients)
    count = len(batches["TEST"].source) // batches["TEST"].batch
    return mean(
        forward(net["TEST"], store, batches["TEST"], step)["accuracy"] for step in range(count)
    )


def forward(net: Any, store: Any, batches: Any, step: int) -> dict[str, float]:
    """Run one forward pass. Returns its scores."""
    inputs = dict(zip(net.inputs, batches.read(step, 0, batches.batch), strict=True))
    found: dict[str, float] = net.run(
        inputs, {layer: store.read(layer) for layer in net.params}, step
    )
    return found


if __name__ == "__main__":
    sys.exit(main())

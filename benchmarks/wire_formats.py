"""`python -m benchmarks.wire_formats`: the accuracy of nets whose gradients travel in fewer bytes,
and the number of bytes.

LeNet with four conv workers and a reducer for each two, as in the preset `sync`, on one event loop
and virtual time: the roles are real, and every gradient is encoded and decoded. For several seeds,
each format trains from the same first parameters on the same order of images as float32 does. The
results are the share of correct test images, and the bytes of gradients per iteration on all links
together.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write

FORMATS = ("float32", "float16", "bfloat16", "one-bit", "threshold")
# points by which the mean may differ from float32's
BARS = {"float16": 0.1, "bfloat16": 0.1, "one-bit": 0.3}
MNIST = {"train": "train", "test": "t10k"}

# The rate falls to 0, so that the last steps' noise does not decide which images are right
SOLVER = """
net: "lenet.prototxt"
base_lr: {rate} momentum: 0.9 weight_decay: 0.0005 lr_policy: "poly" power: 1
max_iter: {iterations} display: 0 snapshot: 0 test_interval: {iterations} test_initialization: false
"""

CLUSTER = """
[train]
solver = "solver.prototxt"
seed = {seed}
[train.data]
train = {train}
test = {test}
shuffle = true
[train.strategy]
preset = "sync"
workers = 4
[train.gradients]
format = "{format}"
{option}
"""
LINKS = "4 workers -> 2 reducers -> conv model"
OPTION = {"threshold": "tau = {tau}", "one-bit": "block = {block}"}  # of the formats with an option


def main(arguments: list[str] | None = None) -> int:
    """Train, compare and write the results. Returns 1 if a format learns worse than its bar
    allows."""
    parser = parser_of("wire_formats", __doc__)
    parser.add_argument(
        "--mnist", type=Path, help=("folder of MNIST's IDX files; without it, the digits that ship")
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--tau", type=float, default=0.01)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument(
        "--kept", type=Path, help=("a file of finished runs, which are not run again")
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    record = Record(
        (f"LeNet on {'MNIST' if given.mnist else 'the digits that ship'}"), status="passed"
    )
    record.facts = {
        "iterations": given.iterations,
        "images an iteration": 64,
        "base_lr": f"{given.rate}, falling to 0",
        "tau": given.tau,
        "block": given.block,
        "links of gradients": LINKS,
        "numbers that travel": "25570, the conv phase's; FC gradients never leave their server",
    }
    compared(record, given)
    print("results:", *write(given.results, "wire-formats", machine(), {"lenet": record}))
    return int(record.status == "failed")


def compared(record: Record, given: argparse.Namespace) -> None:
    """Train every format with every seed."""
    done: dict[str, Any] = (
        json.loads(given.kept.read_text()) if given.kept and given.kept.exists() else {}
    )
    record.table("Test accuracy in percent", "seed", *given.formats)
    right: dict[str, list[float]] = {name: [] for name in given.formats}
    sent: dict[str, list[float]] = {name: [] for name in given.formats}
    for seed in given.seeds:
        for name in given.formats:
            key = (
                f"{record.title} {LINKS} {name} {seed} {given.iterations} {given.rate} "
                f"{given.tau} {given.block}"
            )
            if key not in done:
                done[key] = trained(name, seed, given)
            if given.kept:
                given.kept.write_text(json.dumps(done, indent=1) + "\n")
            right[name].append(100 * done[key]["accuracy"])
            sent[name].append(done[key]["bytes"])
        record.row(seed, *(right[name][-1] for name in given.formats))
    record.row("mean", *(mean(right[name]) for name in given.formats))
    concluded(record, right, sent)


def concluded(record: Record, right: dict[str, list[float]], sent: dict[str, list[float]]) -> None:
    """Compare each format with float32: points of accuracy with their standard error over the
    seeds, and bytes."""
    record.table(
        "Beside float32",
        "format",
        "points",
        "standard error",
        "bar",
        "bytes of gradients an iteration",
        "times fewer",
    )
    for name in right:
        apart = [one - other for one, other in zip(right[name], right["float32"], strict=True)]
        error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf
        size = mean(sent[name])
        bar = BARS.get(name)
        record.row(
            name,
            mean(apart),
            error,
            "" if bar is None else bar,
            round(size),
            mean(sent["float32"]) / size,
        )
        if bar is not None and abs(mean(apart)) > bar:
            record.fail(f"{name} is {mean(apart):+.2f} points from float32, more than {bar}")


def trained(name: str, seed: int, given: argparse.Namespace) -> dict[str, float]:
    """The share of correct test images at the end, and the bytes of gradients of an iteration."""
    from roles import ROLES, plan
    from runtime.config.file import load_with_program
    from runtime.plan.placement import place
    from runtime.simulation.clock import run_virtual
    from runtime.simulation.cluster import simulate

    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.toml")
        Path(folder, "solver.prototxt").write_text(
            SOLVER.format(rate=given.rate, iterations=given.iterations)
        )
        data = {phase: source(phase, given.mnist) for phase in MNIST}
        option = OPTION.get(name, "").format(tau=given.tau, block=given.block)
        path.write_text(CLUSTER.format(format=name, seed=seed, option=option, **data))
        loaded = load_with_program(path)
        placement = place(plan(loaded.config, loaded.options), loaded.config)
        senders = {role: counting(ROLES[role], sizes) for role in ("conv_compute", "tree_reducer")}
        journal = run_virtual(simulate(placement, {**ROLES, **senders}, directory=Path(folder)))
    return {"accuracy": journal.of("test")[-1]["accuracy"], "bytes": sum(sizes) / given.iterations}


def source(phase: str, mnist: Path | None) -> str:
    """The data of a phase, as TOML."""
    if mnist is None:
        return f'{{ format = "digits", split = "{phase}" }}'
    images, labels = (
        str(mnist.resolve() / f"{MNIST[phase]}-{kind}-ubyte.gz")
        for kind in ("images-idx3", "labels-idx1")
    )
    return f'{{ format = "idx", images = "{images}", labels = "{labels}" }}'


def counting(role: type[Any], sizes: list[int]) -> type[Any]:
    """A subclass of the role, which adds the bytes of every gradient that it tells to `sizes`."""
    from roles.messages import LayerGradient

    class Counted(role, overrides=("tell",)):  # type: ignore[misc]  # a class made of a class that is given
        async def tell(self, to: str, message: Any, *, step: int = -1) -> None:
            if isinstance(message, LayerGradient):
                sizes.append(sum(array.nbytes for array in message.blobs))
            await super().tell(to, message, step=step)

    return Counted


if __name__ == "__main__":
    sys.exit(main())

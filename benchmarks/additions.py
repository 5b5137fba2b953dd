"""`python -m benchmarks.additions`: the time and memory that each part of today's recipes adds to a
training step.

The net is ResNet-20 on images of CIFAR-10's shape. All sides live in one process and take turns. A
ratio is the median of the ratios of the turns, so other work on the machine affects both sides
alike. The bar is for BatchNorm with its Scale, an average of the weights and clipping together.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, medians, ratio, rounds, write
from benchmarks.training.training import made_up, step_of

IMAGE = (3, 32, 32)
CLASSES = 10
MOST = 1.08  # the bar, of a step without the three parts
ROUNDS = (3, 40)  # at least and at most
SMALL = 1e-3  # a norm that every gradient exceeds, so that each step is clipped
MEGABYTE = 1e6
RATE = 1e-3
NORMS = re.compile(
    r'^layer \{\n  name: "\w+" type: "(BatchNorm|Scale)".*?^\}\n', re.MULTILINE | re.DOTALL
)
LOSS = 'type: "SoftmaxWithLoss"'
BARE = "without BatchNorm"
PLAIN = "with BatchNorm"
THREE = "BatchNorm, average and clipping"


@dataclass(frozen=True)
class Side:
    """A step: its net (`norms`, `smoothing`), the type of its solver, and parts of the recipe.
    `beside`: the side that its time and memory are compared with."""

    beside: str
    norms: bool = True
    smoothing: float = 0.0
    kind: str = "SGD"
    average: bool = False
    clip: bool = False


SIDES = {
    BARE: Side(BARE, norms=False),
    PLAIN: Side(BARE),
    "average of the weights": Side(PLAIN, average=True),
    "clipping": Side(PLAIN, clip=True),
    THREE: Side(BARE, average=True, clip=True),
    "label smoothing": Side(PLAIN, smoothing=0.1),
    "Nesterov": Side(PLAIN, kind="Nesterov"),
    "AdamW": Side(PLAIN, kind="AdamW"),
    "LARS": Side(PLAIN, kind="LARS"),
    "Muon": Side(PLAIN, kind="Muon"),
}


def main(arguments: list[str] | None = None) -> int:
    """Measure all sides and write the result. Returns 1 if the three parts cost more than the
    bar."""
    parser = parser_of("additions", __doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=120.0, help="seconds for all sides")
    parser.add_argument("--precision", choices=("exact", "fast"), default="fast")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    record = Record("Time and memory of the parts of a recipe")
    record.facts = {
        "net": f"resnet20, batch {given.batch}, images {IMAGE}",
        "preset": f"the step of single, {given.threads} threads, precision {given.precision}",
    }
    with threadpool_limits(given.threads):  # of BLAS, which multiplies Muon's matrices
        measured(record, given)
    paths = write(given.results, "additions", machine(), {"resnet20": record})
    print("results:", *paths)
    return int(record.status == "failed")


def measured(record: Record, given: argparse.Namespace) -> None:
    """Measure every side, and judge the three parts together."""
    steps, held = {}, {}
    nets: dict[tuple[bool, float], Any] = {}
    for name, side in SIDES.items():
        key = (side.norms, side.smoothing)
        if key not in nets:
            nets[key] = net_of(side, given)
        steps[name], held[name] = made(nets[key], side)
    taken = rounds(steps, given.seconds, least=ROUNDS[0], most=ROUNDS[1])
    record.facts["rounds"] = len(taken[BARE])
    times = medians(taken)
    record.table(
        "Seconds of a step, and megabytes of its passes, gradients, parameters, histories and averages",
        "step", "seconds", "compared with", "ratio of times", "megabytes", "more megabytes",
    )  # fmt: skip
    for name, side in SIDES.items():
        times_as_long = ratio(taken[name], taken[side.beside])
        more = held[name] - held[side.beside]
        record.row(
            name, times[name], side.beside, times_as_long, held[name] / MEGABYTE, more / MEGABYTE
        )
    record.status = "passed"
    record.judge(f"{THREE}, ratio of times", ratio(taken[THREE], taken[BARE]), most=MOST)


def net_of(side: Side, given: argparse.Namespace) -> Any:
    """ResNet-20 for training, with the norms and the loss of this side."""
    from nets import Net
    from nets.definition.spec import ZOO, net_of_text
    from ops import get_backend

    path = ZOO / "resnet20.prototxt"
    text = path.read_text("utf-8")
    if not side.norms:
        text = NORMS.sub("", text)
    smoothing = f"{LOSS} loss_param {{ label_smoothing: {side.smoothing} }}"
    backend = get_backend("cpu", threads=given.threads, precision=given.precision)
    return Net(
        net_of_text(text.replace(LOSS, smoothing), path),
        "TRAIN",
        ops=backend,
        memory="reused",
        seed=1,
        batch=given.batch,
        input_shape=IMAGE,
    )


def made(net: Any, side: Side) -> tuple[Callable[[], object], int]:
    """The step of a side, and the bytes that it holds."""
    from nets import SolverExtras, WeightAverage, load_solver
    from roles.learning.parameter_store import ParameterStore

    clip = {"clip_gradients": SMALL} if side.clip else {}
    solver = load_solver("resnet20_solver", {"type": side.kind})
    solver = replace(
        solver.override({"base_lr": RATE, **clip}),
        extras=SolverExtras(average=WeightAverage(0.999) if side.average else None),
    )
    store = ParameterStore(net.params, net.initial_blobs(), solver, net.ops, in_place=True)
    held = store.overwritten()
    held += [blob for layer in store.layers for blob in store.read(layer)]  # as many gradients
    if side.average:
        held += [blob for layer in store.layers for blob in store.read(layer, "TEST")]
    size = net.memory_plan.size + sum(array.nbytes for array in held)
    return step_of(net, made_up(net, CLASSES), store), size


if __name__ == "__main__":
    sys.exit(main())

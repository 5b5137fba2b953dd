"""`python -m benchmarks.kernels.sequences`: LSTMs in float32 and bfloat16, next to the bound of
their products and to PyTorch.

A pass covers all steps of a batch of sequences. Backward computes the gradients of the input and of
all parameters. Our side takes float32 arrays; in bfloat16 it rounds the operands of products, as in
training with `precision = "bf16"`. PyTorch runs in float32 and in its autocast to bfloat16. All
sides run in one process, turn by turn. The share of the bound is the least time of the products, at
the rate of the best large product in that precision, divided by the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, medians, missing, ratio, rounds, write
from benchmarks.helpers.rounding import no_bfloat16
from benchmarks.kernels.bounds import product_rate

GATES = 4
PRECISIONS = {"float32": "fast", "bf16": "bf16"}  # column -> of our backend


class Sequences(NamedTuple):
    """`rows` sequences of `steps` vectors of `width` numbers, and an LSTM of `hidden` units."""

    name: str
    steps: int
    rows: int
    width: int
    hidden: int

    @property
    def flops(self) -> int:
        """The FLOPs of the forward pass. Backward has twice as many."""
        return 2 * self.steps * self.rows * GATES * self.hidden * (self.width + self.hidden)


SIZES = (
    Sequences("char_lstm", 64, 64, 64, 256),
    Sequences("few sequences", 64, 8, 256, 256),
    Sequences("512 units", 32, 64, 512, 512),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure every size and write the results. Returns 1 if bfloat16 is slower than float32, or
    PyTorch is missing."""
    parser = parser_of("kernels.sequences", __doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each pass")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    if missing({"torch": "torch"}):
        print("missing: torch, the peer; install it with: python -m pip install torch")
        return 1
    if why := no_bfloat16():
        print(why)
        return 1
    record = measured(given.threads, given.seconds)
    print("results:", *write(given.results, "sequences", machine(), {record.title: record}))
    return int(record.status != "passed")


def measured(threads: int, seconds: float) -> Record:
    """The record of all sizes."""
    import torch

    from ops import get_backend

    torch.set_num_threads(threads)
    record = Record(f"{threads} threads")
    ours = {
        name: get_backend("cpu", threads=threads, precision=precision)
        for name, precision in PRECISIONS.items()
    }
    peaks = {name: product_rate(ops, seconds) for name, ops in ours.items()}
    record.facts = {"torch": torch.__version__} | {
        f"GFLOP/s of the best product, {name}": round(rate, 1) for name, rate in peaks.items()
    }
    record.table(
        f"Milliseconds, {threads} threads",
        "LSTM", "pass", "torch f32", "torch bf16", "float32", "bf16", "bf16 beside float32",
        "bf16 beside torch's better", "GFLOP/s, bf16", "share, float32", "share, bf16",
    )  # fmt: skip
    for size, name, flops, sides in passes(ours, torch):
        taken = rounds(sides, seconds, least=3, most=400)
        times = medians(taken)
        better = min(("torch f32", "torch bf16"), key=times.__getitem__)
        faster = ratio(taken["float32"], taken["bf16"])
        beside = ratio(taken[better], taken["bf16"])
        shares = [flops / times[each] / 1e9 / peaks[each] for each in PRECISIONS]
        shown = [1e3 * spent for spent in times.values()]
        record.row(size.name, name, *shown, faster, beside, flops / times["bf16"] / 1e9, *shares)
        record.judge(f"bf16 beside float32, {size.name}, {name}", faster, least=0.9)
    if record.status == "running":
        record.status = "passed"
    return record


def passes(
    ours: dict[str, Any], torch: Any
) -> Iterator[tuple[Sequences, str, int, dict[str, Callable[[], object]]]]:
    """Each pass of each size: its FLOPs, and a function of each side."""
    for size in SIZES:
        rng = np.random.default_rng(0)
        shape = (size.steps, size.rows, size.hidden)
        x, dh = (
            rng.standard_normal((*shape[:2], last), dtype=np.float32)
            for last in (size.width, size.hidden)
        )
        theirs = {"torch f32": None, "torch bf16": torch.bfloat16}
        peers = {name: _torch(torch, size, x, dh, kind) for name, kind in theirs.items()}
        mine = {name: _ours(ops, size, rng, x, dh) for name, ops in ours.items()}
        for at, name in enumerate(("forward", "backward")):
            sides = {label: pair[at] for label, pair in (peers | mine).items()}
            yield size, name, (1 + at) * size.flops, sides


Pair = tuple[Callable[[], object], Callable[[], object]]


def _ours(ops: Any, size: Sequences, rng: np.random.Generator, x: Any, dh: Any) -> Pair:
    gated = GATES * size.hidden
    w_x, w_h = (
        rng.uniform(-0.08, 0.08, (gated, last)).astype(np.float32)
        for last in (size.width, size.hidden)
    )
    b = np.zeros(gated, np.float32)
    cont = np.ones(x.shape[:2], np.float32)
    cont[0] = 0
    tape = ops.lstm_forward(x, cont, w_x, b, w_h)
    found = ops.lstm_backward(dh, tape, x, cont, w_x, w_h, without=("extra",))
    return (
        lambda: ops.lstm_forward(x, cont, w_x, b, w_h, tape=tape),
        lambda: ops.lstm_backward(dh, tape, x, cont, w_x, w_h, out=found, without=("extra",)),
    )


def _torch(torch: Any, size: Sequences, x: Any, dh: Any, autocast: Any) -> Pair:
    net = torch.nn.LSTM(size.width, size.hidden)
    values, gradient = torch.from_numpy(x).requires_grad_(), torch.from_numpy(dh)
    arguments = [values, *net.parameters()]

    def forward() -> Any:
        with torch.autocast("cpu", autocast) if autocast else nullcontext():
            return net(values)[0]

    result = forward()
    gradient = gradient.to(result.dtype)
    return forward, lambda: torch.autograd.grad(result, arguments, gradient, retain_graph=True)


if __name__ == "__main__":
    raise SystemExit(main())

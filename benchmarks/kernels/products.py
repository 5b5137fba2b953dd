"""`python -m benchmarks.kernels.products`: products of matrices in bfloat16 compared with our float32
and with PyTorch's.

The shapes are those of 1 x 1 convolutions of ResNet-50 and MobileNet as products, of dense layers,
and of LSTMs. Our side takes float32 arrays and rounds them, as in training with `precision =
"bf16"`. PyTorch is given operands in bfloat16 and, in another column, float32 operands that it
rounds first, as its autocast does. All sides run in one process, turn by turn. The share of the bound
is the least time of a product in bfloat16, divided by its time: its FLOPs at the rate of the best
large product, or its float32 arrays at the rate of a copy, whichever is longer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.helpers.report import ROOT, Record, machine, medians, missing, ratio, rounds, write
from benchmarks.helpers.rounding import no_bfloat16
from benchmarks.kernels import bounds


class Shape(NamedTuple):
    """A product (m, k) (k, n). `turned`: the operands that lie transposed in memory."""

    name: str
    m: int
    k: int
    n: int
    turned: str

    @property
    def flops(self) -> int:
        """Two for every product of numbers."""
        return 2 * self.m * self.k * self.n

    @property
    def bytes(self) -> int:
        """The bytes of both operands and of the result, in float32."""
        return 4 * (self.m * self.k + self.k * self.n + self.m * self.n)


PIXELS = 8 * 14 * 14  # of 8 images
SHAPES = (
    Shape("ResNet-50, 64 to 256 at 56", 16 * PIXELS, 64, 256, "b"),
    Shape("ResNet-50, 256 to 64 at 56", 16 * PIXELS, 256, 64, "b"),
    Shape("ResNet-50, 512 to 128 at 28", 4 * PIXELS, 512, 128, "b"),
    Shape("ResNet-50, 1024 to 256 at 14", PIXELS, 1024, 256, "b"),
    Shape("the same, gradient of images", PIXELS, 256, 1024, ""),
    Shape("the same, gradient of weights", 256, PIXELS, 1024, "a"),
    Shape("ResNet-50, 512 to 2048 at 7", PIXELS // 4, 512, 2048, "b"),
    Shape("MobileNet, 32 to 64 at 112", 64 * PIXELS, 32, 64, "b"),
    Shape("MobileNet, 512 to 512 at 14", PIXELS, 512, 512, "b"),
    Shape("LeNet's ip1, batch 64", 64, 800, 500, "b"),
    Shape("CaffeNet's fc6, batch 64", 64, 9216, 4096, "b"),
    Shape("the same, gradient of inputs", 64, 4096, 9216, ""),
    Shape("the same, gradient of weights", 4096, 64, 9216, "a"),
    Shape("CaffeNet's fc7, batch 8", 8, 4096, 4096, "b"),
    Shape("LSTM of 256, inputs of 64 steps", 4096, 64, 1024, "b"),
    Shape("LSTM of 256, a step of 64 sequences", 64, 256, 1024, "b"),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure every shape and write the results. Returns 1 if a product in bfloat16 is slower than
    in float32, or PyTorch is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels.products")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each shape")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    if missing({"torch": "torch"}):
        print("missing: torch, the peer; install it with: python -m pip install torch")
        return 1
    if why := no_bfloat16():
        print(why)
        return 1
    record = Record(f"products, {given.threads} threads")
    record.table(
        f"GFLOP/s, {given.threads} threads",
        "product", "m", "k", "n", "torch f32", "torch bf16", "torch, rounding", "float32", "bf16",
        "bf16 beside float32", "beside torch, rounding", "share of the bound",
    )  # fmt: skip
    ours = backends(given.threads)
    bound = bounds.measured(ours["bf16"], given.seconds)
    record.facts = bound.facts()
    for shape, taken in measured(ours, given.seconds):
        times = medians(taken)
        rates = [shape.flops / spent / 1e9 for spent in times.values()]
        share = bound.seconds(shape.flops, shape.bytes) / times["bf16"]
        faster = ratio(taken["float32"], taken["bf16"])
        beside = ratio(taken["torch, rounding"], taken["bf16"])
        record.row(shape.name, shape.m, shape.k, shape.n, *rates, faster, beside, share)
        record.judge(f"bf16 beside float32, {shape.name}", faster, least=0.9)
    if record.status == "running":
        record.status = "passed"
    print("results:", *write(given.results, "products", machine(), {record.title: record}))
    return int(record.status != "passed")


def backends(threads: int) -> dict[str, Any]:
    """Our backends by the name of their column."""
    import torch

    from ops import get_backend

    torch.set_num_threads(threads)
    precisions = {"float32": "fast", "bf16": "bf16"}
    return {
        name: get_backend("cpu", threads=threads, precision=precision)
        for name, precision in precisions.items()
    }


def measured(
    ours: dict[str, Any], seconds: float
) -> Iterator[tuple[Shape, dict[str, list[float]]]]:
    """The seconds of each side for each shape, a round at a time."""
    import torch

    rng = np.random.default_rng(0)
    for shape in SHAPES:
        a = _matrix(rng, shape.m, shape.k, turned="a" in shape.turned)
        b = _matrix(rng, shape.k, shape.n, turned="b" in shape.turned)
        yield shape, rounds(_sides(torch, ours, a, b), seconds, least=3, most=400)


def _sides(torch: Any, ours: dict[str, Any], a: Any, b: Any) -> dict[str, Callable[[], object]]:
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    narrow_x, narrow_y = x.bfloat16(), y.bfloat16()
    sides: dict[str, Callable[[], object]] = {
        "torch f32": lambda: torch.mm(x, y),
        "torch bf16": lambda: torch.mm(narrow_x, narrow_y),
        "torch, rounding": lambda: torch.mm(x.bfloat16(), y.bfloat16()).float(),
    }
    for name, backend in ours.items():
        sides[name] = lambda backend=backend: backend.matmul(a, b, out)  # type: ignore[misc]
    return sides


def _matrix(rng: np.random.Generator, rows: int, columns: int, *, turned: bool) -> Any:
    shape = (columns, rows) if turned else (rows, columns)
    found = rng.standard_normal(shape, dtype=np.float32)
    return found.T if turned else found


if __name__ == "__main__":
    raise SystemExit(main())

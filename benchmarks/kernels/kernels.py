"""`python -m benchmarks.kernels`: every convolution of the nets compared with PyTorch, pass by
pass, with its error.

Both sides run in one process, turn by turn. PyTorch runs in both of its layouts (the better one
counts) and in eager mode, with each result in new memory. Each precision and number of threads has
its own process. A ratio above 1 means that Convoy is faster. A pass with a ratio below 1 is
measured again, twenty times as long, and the second result counts. GB/s counts the images of a pass
once. The share of the bound is the least time that a pass needs, divided by its time: either its
products at the rate of a large product of matrices, or its images at the rate of a copy, whichever
is longer. Winograd's algorithms make fewer products, so their share may be above 1. An error is the
largest difference from `conv_reference`'s numbers, divided by the largest of them. With the precision
"bf16" PyTorch's operands are bfloat16.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, gain, machine, medians, missing, rounds, write
from benchmarks.kernels import conv_reference
from benchmarks.training.training import WORKLOADS

NETS = [name for name, work in WORKLOADS.items() if work.image]
PASSES = FORWARD, DATA, WEIGHTS = "forward", "backward-data", "backward-weights"
BAR = 0.9  # the least ratio of a single pass
CLEAR = 1.0  # a pass with a ratio below this is measured again, LONGER times as long
LONGER = 20
COPIED = 256 << 20  # bytes of the copy that measures the memory
SIDE = 1024  # rows and columns of the product that measures the arithmetic
BOUNDS = {  # the largest error by precision
    "exact": dict.fromkeys(PASSES, 1e-5),
    "fast": {FORWARD: 1e-4, DATA: 1e-4, WEIGHTS: 1e-3},
    "bf16": dict.fromkeys(PASSES, 2e-2),
}


@dataclass(frozen=True)
class Layer:
    """A convolution of a net: its ConvShape, whether it reads the data, and whether it has a
    bias."""

    shape: Any
    first: bool
    bias: bool

    def __str__(self) -> str:
        (n, c, h, w), g = self.shape.in_shape, self.shape.geometry
        text = f"{n} x {c} x {h} x {w}, {self.shape.outputs} of {g.kernel[0]} x {g.kernel[1]}"
        text += f" / {g.stride[0]}" if g.stride != (1, 1) else ""
        return text + (f", {g.groups} groups" if g.groups > 1 else "")

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that training needs."""
        return tuple(name for name in PASSES if not (self.first and name == DATA))

    @property
    def bytes(self) -> int:
        """The bytes of the images that each pass reads or writes, once."""
        return 4 * int(np.prod(self.shape.in_shape) + np.prod(self.shape.out_shape))

    @property
    def flops(self) -> int:
        """The FLOPs of each pass: two for every product in the definition."""
        return 2 * int(np.prod(self.shape.out_shape)) * int(np.prod(self.shape.weight_shape[1:]))


def main(arguments: list[str] | None = None) -> int:
    """Run the layers for each precision and number of threads, and write the results. Returns 1 if
    a pass misses its bar."""
    parser = parser_of("kernels", __doc__)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", nargs="+", choices=tuple(BOUNDS), default=["fast"])
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="seconds for each pass of each layer"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if absent := missing({"torch": "torch"}):
        print(
            f"missing: {', '.join(absent)}, the peer; install it with: python -m pip install "
            f"{' '.join(absent)}"
        )
        return 1
    if given.into:
        return run_here(given)
    records = {}
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        for precision in given.precision:
            for threads in given.threads:
                # some nets do not replace a run of all
                some = "" if set(given.nets) == set(NETS) else f", {' '.join(given.nets)}"
                title = f"{precision}, {threads} threads{some}"
                records[title] = run_apart(
                    given, title, precision, threads, Path(folder, f"{precision}{threads}.json")
                )
    paths = write(given.results, "kernels", machine(), records)
    print("results:", *paths)
    return int(any(record.status != "passed" for record in records.values()))


def run_apart(
    given: argparse.Namespace, title: str, precision: str, threads: int, path: Path
) -> Record:
    """Measure one precision and number of threads in a new process, whose libraries all use that
    many."""
    print(title, flush=True)
    Record(title, path=path).save()
    names = ("CONVOY_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [
        sys.executable,
        "-m",
        "benchmarks.kernels",
        "--into",
        str(path),
        "--threads",
        str(threads),
    ]
    command += ["--precision", precision, "--seconds", str(given.seconds), "--nets", *given.nets]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return Record.load(path)


def run_here(given: argparse.Namespace) -> int:
    """Measure in this process, and save the record."""
    import torch

    from ops import get_backend

    (threads,), (precision,) = given.threads, given.precision
    torch.set_num_threads(threads)
    ops = get_backend("cpu", threads=threads, precision=precision)
    record = Record.load(given.into)
    record.path = given.into
    copied, multiplied = copy_rate(ops, given.seconds), product_rate(ops, given.seconds)
    record.facts = {
        "torch": torch.__version__,
        "precision": precision,
        "threads": threads,
        "GB/s of a copy of 256 MB": round(copied, 1),
        f"GFLOP/s of a product of {SIDE} x {SIDE} matrices": round(multiplied, 1),
    }
    record.table(
        (f"Milliseconds of a pass, {threads} threads"),
        "net",
        "layers",
        "shape",
        "pass",
        "algorithm",
        "torch nchw",
        "torch nhwc",
        "convoy",
        "ratio to the better",
        "GFLOP/s",
        "GB/s",
        "share of the bound",
        "error",
    )
    totals: dict[str, list[float]] = {}
    for net in given.nets:
        totals[net] = [0.0, 0.0]
        for layer, count in layers(net, ops).items():
            for name, algorithm, taken, error in measure(layer, ops, given.seconds):
                times = medians(taken)
                faster = gain(taken)
                ours = times["convoy"]
                totals[net][0] += min(times["nchw"], times["nhwc"]) * count
                totals[net][1] += ours * count
                shown = [times[label] * 1e3 for label in ("nchw", "nhwc", "convoy")]
                record.row(
                    net,
                    count,
                    str(layer),
                    name,
                    algorithm,
                    *shown,
                    faster,
                    layer.flops / ours / 1e9,
                    layer.bytes / ours / 1e9,
                    max(layer.flops / multiplied, layer.bytes / copied) / 1e9 / ours,
                    error,
                )
    conclude(record, totals, BOUNDS[precision])
    return 0


def conclude(record: Record, totals: dict[str, list[float]], bounds: dict[str, float]) -> None:
    """Record the sums of each net, then every pass that misses its bar or its bound."""
    rows = record.tables[0].rows
    record.table(
        ("All convolutions of a step, milliseconds"), "net", "torch's better", "convoy", "ratio"
    )
    for net, (theirs, ours) in totals.items():
        record.row(net, theirs * 1e3, ours * 1e3, theirs / ours)
    together = layers_together(rows)
    record.table(
        ("All passes of a layer, beside PyTorch's better layout for each"), "net", "shape", "ratio"
    )
    for (net, shape), ratio in together.items():
        record.row(net, shape, ratio)
    below = sum(ratio < BAR for ratio in together.values())
    least = min(together.values(), default=float("nan"))
    record.note(
        f"{below} of {len(together)} layers below {BAR}, their passes taken "
        f"together; the least {least:.2f}"
    )
    for net, _, shape, name, algorithm, *_, faster, _, _, _, error in rows:
        if faster < BAR:
            record.fail(f"{faster:.2f} of PyTorch: {net}, {shape}, {name}, {algorithm}")
        if not error <= bounds[name]:
            record.fail(
                f"error {error:.1e} above {bounds[name]:.0e}: {net}, {shape}, {name}, {algorithm}"
            )
    if record.status == "running":
        record.status = "passed"
    record.save()


def layers_together(rows: list[list[Any]]) -> dict[tuple[str, str], float]:
    """PyTorch's time for all passes of a layer in a training step, divided by ours."""
    theirs: defaultdict[tuple[str, str], float] = defaultdict(float)
    ours: defaultdict[tuple[str, str], float] = defaultdict(float)
    for net, _, shape, *_, taken, faster, _, _, _, _ in rows:
        theirs[net, shape] += taken * faster
        ours[net, shape] += taken
    return {layer: theirs[layer] / ours[layer] for layer in ours}


def layers(net: str, ops: Any) -> Counter[Layer]:
    """The distinct convolutions of a net in the zoo in their order, and the number of each."""
    from nets import Net, load_net
    from ops.cpu.conv.algorithm import ConvShape

    work = WORKLOADS[net]
    made = Net(load_net(work.net), "TRAIN", ops=ops, batch=work.batch, input_shape=work.image)
    found: Counter[Layer] = Counter()
    for node in made.nodes:
        if node.layer.proto.type == "Convolution":
            source = made.wiring.values[node.bottoms[0]]
            shape = ConvShape(source.shape, node.layer.top_shape[1], node.layer.geometry)
            found[Layer(shape, source.name in made.input_shapes, len(node.layer.params) > 1)] += 1
    return found


def measure(
    layer: Layer, ops: Any, seconds: float
) -> Iterator[tuple[str, str, dict[str, list[float]], float]]:
    """For each pass: its name, our algorithm, seconds by side and round, our error."""
    arrays = made_up(layer, ops)
    sides = {"convoy": our_passes(layer, ops, arrays)}
    for label in ("nchw", "nhwc"):
        sides[label] = torch_passes(
            layer, arrays, channels_last=label == "nhwc", place=(None, torch_type(ops.precision))
        )
    for name in layer.passes:
        arrays[name].fill(np.nan)
        turns = {label: passes[name] for label, passes in sides.items()}
        taken = rounds(turns, seconds, least=3, most=400)
        if gain(taken) < CLEAR:
            taken = rounds(turns, seconds * LONGER, least=3, most=400)
        yield (
            name,
            algorithm(ops, layer, name),
            taken,
            conv_reference.error(layer.shape, name, arrays),
        )


def torch_type(precision: str) -> Any:
    """The dtype of PyTorch's operands, or None for that of our arrays."""
    import torch

    return torch.bfloat16 if precision == "bf16" else None


def copy_rate(ops: Any, seconds: float) -> float:
    """GB/s that a copy reads and writes: the bound of a pass with few products for each number."""
    source = ops.empty((COPIED // 4,))
    target = ops.empty((COPIED // 4,))
    source.fill(1)
    taken = medians(rounds({"copy": lambda: ops.copy(source, target)}, seconds, least=3, most=400))
    return 2 * COPIED / taken["copy"] / 1e9


def product_rate(ops: Any, seconds: float) -> float:
    """GFLOP/s of a product of two large square matrices: the bound of a pass with many products."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    out = np.empty_like(a)
    sides = {"product": lambda: ops.matmul(a, b, out)}
    taken = medians(rounds(sides, seconds, least=3, most=400))
    return 2 * SIDE**3 / taken["product"] / 1e9


def algorithm(ops: Any, layer: Layer, name: str) -> str:
    """The name of the algorithm that computes a pass."""
    chosen = ops.chooser(layer.shape, name)
    return chosen.mode.name if hasattr(chosen, "mode") else type(chosen).__name__


def made_up(layer: Layer, ops: Any) -> dict[str, Any]:
    """The operands x, w, b, dy of standard normal numbers, laid out as in training, and an array
    for each pass's result."""
    rng = np.random.default_rng(0)
    shape = layer.shape

    def normal(size: tuple[int, ...], new: Callable[..., Any]) -> Any:
        array = new(size, np.float32)
        array[...] = rng.standard_normal(size, dtype=np.float32)
        return array

    found = {
        "x": normal(shape.in_shape, np.empty if layer.first else ops.empty),
        "dy": normal(shape.out_shape, ops.empty),
    }
    found["w"], found["b"] = (
        normal(shape.weight_shape, np.empty),
        normal((shape.outputs,), np.empty),
    )
    if not layer.bias:
        found["b"] = None
    results = {
        FORWARD: ops.empty(shape.out_shape),
        WEIGHTS: np.empty(shape.weight_shape, np.float32),
    }
    if not layer.first:
        results[DATA] = ops.empty(shape.in_shape)
    return {**found, **results}


def our_passes(layer: Layer, ops: Any, arrays: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """A function for each pass by our backend."""
    shape = layer.shape
    g, x, w, b, dy = shape.geometry, *(arrays[name] for name in ("x", "w", "b", "dy"))
    return {
        FORWARD: lambda: ops.conv_forward(x, w, b, g, arrays[FORWARD]),
        DATA: lambda: ops.conv_backward_data(dy, w, g, shape.in_shape, arrays[DATA]),
        WEIGHTS: lambda: ops.conv_backward_weights(
            x, dy, g, shape.weight_shape, bias=False, out_w=arrays[WEIGHTS]
        ),
    }


def torch_passes(
    layer: Layer,
    arrays: dict[str, Any],
    *,
    channels_last: bool,
    place: tuple[Any, Any] = (None, None),
) -> dict[str, Callable[[], object]]:
    """A function for each pass by PyTorch, with operands in its layout. `place`: its device and
    dtype; None keeps those of the arrays."""
    import torch

    form = torch.channels_last if channels_last else torch.contiguous_format
    device, dtype = place

    def there(name: str) -> Any:
        return torch.from_numpy(arrays[name]).to(device=device, dtype=dtype)

    x, w, dy = (there(name).contiguous(memory_format=form) for name in ("x", "w", "dy"))
    b = None if arrays["b"] is None else there("b")
    g = layer.shape.geometry
    windows = g.stride, g.pad, g.dilation

    def backward(*wanted: bool) -> object:
        return torch.ops.aten.convolution_backward(
            dy, x, w, None, *windows, False, (0, 0), g.groups, wanted
        )

    return {
        FORWARD: lambda: torch.nn.functional.conv2d(x, w, b, *windows, g.groups),
        DATA: lambda: backward(True, False, False),
        WEIGHTS: lambda: backward(False, True, False),
    }

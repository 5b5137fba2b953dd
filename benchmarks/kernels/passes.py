"""`python -m benchmarks.kernels.passes`: the operations without products, next to their bound, the
memory, and to PyTorch.

Each operation works on images of ResNet-50, larger than the caches of a core. Its least number of
bytes counts every array once; statistics of a batch need a second pass over their input. The share
of the bound is these bytes a second, divided by the rate of a copy that reads and writes 256 MB.
A share above 1 means that arrays stayed in a cache. PyTorch runs in both layouts, each result in
new memory; the better one counts. Activations and updates run in place where PyTorch can do so.
With `--precision bf16` the images of both sides are bfloat16, and operations that training computes
in float32 are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, gain, machine, medians, missing, rounds, write
from benchmarks.kernels.bounds import copy_rate
from benchmarks.kernels.convolutions import stored_by, torch_type
from ops import PoolGeometry
from ops.activation import RELU, Activation

SHAPE = (8, 256, 56, 56)
WEIGHTS = (2048, 2048)
HALVED = PoolGeometry((3, 3), (2, 2), (1, 1))
RATE = 1e-3
BAR = 0.9  # the least ratio beside PyTorch


@dataclass(frozen=True)
class Pass:
    """An operation: its name, the bytes that it moves at least, and both sides. `theirs` is given
    `form`, the memory format of PyTorch's tensors."""

    name: str
    bytes: int
    ours: Callable[[], object]
    theirs: Callable[[Any], Callable[[], object]]


def main(arguments: list[str] | None = None) -> int:
    """Measure every operation and write the results. Returns 1 if one is slower than PyTorch by
    more than BAR allows, or PyTorch is missing."""
    parser = parser_of("kernels.passes", __doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("fast", "bf16"), default="fast")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each operation")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    if missing({"torch": "torch"}):
        print("missing: torch, the peer; install it with: python -m pip install torch")
        return 1
    record = measured(given)
    print("results:", *write(given.results, "passes", machine(), {record.title: record}))
    return int(record.status != "passed")


def measured(given: argparse.Namespace) -> Record:
    """The record of all operations."""
    import torch

    from ops import get_backend

    torch.set_num_threads(given.threads)
    ops = get_backend("cpu", threads=given.threads, precision=given.precision)
    rounded = "bf16, " if ops.stores_bfloat16 else ""
    record = Record(f"{rounded}{given.threads} threads")
    bound = copy_rate(ops, given.seconds)
    record.facts = {"torch": torch.__version__, "GB/s of a copy of 256 MB": round(bound, 1)}
    record.table(
        f"Milliseconds, {given.threads} threads",
        "operation", "torch nchw", "torch nhwc", "convoy", "ratio to the better", "GB/s",
        "share of the bound",
    )  # fmt: skip
    for each in passes(ops, torch):
        sides = {
            "nchw": each.theirs(torch.contiguous_format),
            "nhwc": each.theirs(torch.channels_last),
            "convoy": each.ours,
        }
        taken = rounds(sides, given.seconds, least=3, most=400)
        times = medians(taken)
        rate = each.bytes / times["convoy"] / 1e9
        faster = gain(taken)
        record.row(each.name, *(1e3 * of for of in times.values()), faster, rate, rate / bound)
        record.judge(each.name, faster, least=BAR)
    if record.status == "running":
        record.status = "passed"
    return record


def passes(ops: Any, torch: Any) -> Iterator[Pass]:
    """Every operation, on images of standard normal numbers."""
    rng = np.random.default_rng(0)

    def images(shape: tuple[int, ...] = SHAPE) -> Any:
        found = ops.empty(shape, stored_by(ops))
        found[...] = rng.standard_normal(shape, dtype=np.float32)
        return found

    x, dy, out = images(), images(), images()
    yield from _activations(ops, torch, (x, dy, out))
    yield from _batch_norms(ops, torch, (x, dy, out))
    yield from _added_norms(ops, torch, (x, dy, out), images(SHAPE))
    yield from _pooling(ops, torch, (x, out), images)
    yield from _sums(ops, torch, (x, dy, out))
    if not ops.stores_bfloat16:
        yield from _norms_of_pixels(ops, torch, (x, dy, out))
        yield _dropout(ops, torch, (x, out))
        yield _update(ops, torch, rng)


def _activations(ops: Any, torch: Any, arrays: tuple[Any, ...]) -> Iterator[Pass]:
    x, dy, out = arrays
    f = torch.nn.functional
    kinds = (
        (Activation("relu"), f.relu),
        (Activation("swish", (1.0,)), f.silu),
        (Activation("hard_swish"), f.hardswish),
        (Activation("gelu"), f.gelu),
    )
    for kind, theirs in kinds:
        yield Pass(
            f"{kind.kind}, forward",
            2 * x.nbytes,
            lambda kind=kind: kind.forward(ops, x, out),  # type: ignore[misc]
            lambda form, theirs=theirs: _calls(theirs, _tensor(ops, torch, x, form)),  # type: ignore[misc]
        )
        yield Pass(
            f"{kind.kind}, backward",
            3 * x.nbytes,
            lambda kind=kind: kind.backward(ops, dy, x, out),  # type: ignore[misc]
            lambda form, theirs=theirs: _gradient(ops, torch, theirs, form, dy, x),  # type: ignore[misc]
        )


def _batch_norms(ops: Any, torch: Any, arrays: tuple[Any, ...]) -> Iterator[Pass]:
    x, dy, out = arrays
    channels = SHAPE[1]
    gamma, beta = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    _, mean, variance = ops.norm_scale_forward(x, gamma, beta)

    def normed(x: Any) -> Any:
        one, zero = torch.from_numpy(gamma), torch.from_numpy(beta)
        found = torch.nn.functional.batch_norm(x, None, None, one, zero, training=True)
        return torch.relu_(found)

    yield Pass(
        "BatchNorm, Scale and ReLU, forward",
        3 * x.nbytes,
        lambda: ops.norm_scale_forward(x, gamma, beta, activation=RELU, out=out),
        lambda form: _calls(normed, _tensor(ops, torch, x, form)),
    )
    yield Pass(
        "BatchNorm, Scale and ReLU, backward",
        5 * x.nbytes,
        lambda: ops.norm_scale_backward(
            dy, x, gamma, beta, mean, variance, activation=RELU, out=out
        ),
        lambda form: _gradient(ops, torch, normed, form, dy, x),
    )


def _added_norms(ops: Any, torch: Any, arrays: tuple[Any, ...], addend: Any) -> Iterator[Pass]:
    """The end of a residual block."""
    x, dy, out = arrays
    channels = SHAPE[1]
    gamma, beta = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    y, mean, variance = ops.norm_scale_forward(x, gamma, beta, activation=RELU, addend=addend)

    def normed(x: Any, addend: Any) -> Any:
        one, zero = torch.from_numpy(gamma), torch.from_numpy(beta)
        found = torch.nn.functional.batch_norm(x, None, None, one, zero, training=True)
        return torch.relu_(found.add_(addend))

    def backward() -> None:
        g, *sums = ops.rectified_sums((dy,), y, x, mean, out=out)
        ops.norm_scale_backward(g, x, gamma, beta, mean, variance, sums=tuple(sums), out=out)

    yield Pass(
        "BatchNorm, Scale, addition and ReLU, forward",
        4 * x.nbytes,
        lambda: ops.norm_scale_forward(x, gamma, beta, activation=RELU, addend=addend, out=out),
        lambda form: _calls(
            normed, _tensor(ops, torch, x, form), _tensor(ops, torch, addend, form)
        ),
    )
    yield Pass(
        "BatchNorm, Scale, addition and ReLU, backward",
        7 * x.nbytes,
        backward,
        lambda form: _gradient(ops, torch, normed, form, dy, x, addend),
    )


def _norms_of_pixels(ops: Any, torch: Any, arrays: tuple[Any, ...]) -> Iterator[Pass]:
    x, dy, out = arrays
    channels = SHAPE[1]
    y, inverse = ops.layer_norm_forward(x)

    def by_channels(x: Any) -> Any:
        last = x.permute(0, 2, 3, 1)
        return torch.nn.functional.layer_norm(last, (channels,)).permute(0, 3, 1, 2)

    yield Pass(
        "LayerNorm over channels, forward",
        2 * x.nbytes,
        lambda: ops.layer_norm_forward(x, out=out),
        lambda form: _calls(by_channels, _tensor(ops, torch, x, form)),
    )
    yield Pass(
        "LayerNorm over channels, backward",
        3 * x.nbytes,
        lambda: ops.layer_norm_backward(dy, y, inverse, out=out),
        lambda form: _gradient(ops, torch, by_channels, form, dy, x),
    )
    result, scale = ops.lrn_forward(x, size=5, alpha=1e-4)

    def responses(x: Any) -> Any:
        return torch.nn.functional.local_response_norm(x, 5, 1e-4)

    yield Pass(
        "LRN, forward",
        3 * x.nbytes,
        lambda: ops.lrn_forward(x, size=5, alpha=1e-4, out=result, scale=scale),
        lambda form: _calls(responses, _tensor(ops, torch, x, form)),
    )
    yield Pass(
        "LRN, backward",
        5 * x.nbytes,
        lambda: ops.lrn_backward(dy, x, result, scale, size=5, alpha=1e-4, out=out),
        lambda form: _gradient(ops, torch, responses, form, dy, x),
    )


def _pooling(
    ops: Any, torch: Any, arrays: tuple[Any, ...], images: Callable[..., Any]
) -> Iterator[Pass]:
    x, out = arrays
    f = torch.nn.functional
    small = images(HALVED.output_shape(SHAPE))
    places = ops.empty(small.shape, np.int32)
    ops.pool_forward(x, HALVED, small, places)

    def pooled(x: Any) -> Any:
        return f.max_pool2d(x, 3, 2, 1, ceil_mode=True)

    yield Pass(
        "largest of 3 x 3 / 2, forward",
        x.nbytes + small.nbytes + places.nbytes,
        lambda: ops.pool_forward(x, HALVED, small, places),
        lambda form: _calls(pooled, _tensor(ops, torch, x, form)),
    )
    yield Pass(
        "largest of 3 x 3 / 2, backward",
        x.nbytes + small.nbytes + places.nbytes,
        lambda: ops.pool_backward(small, HALVED, SHAPE, places, out),
        lambda form: _gradient(ops, torch, pooled, form, small, x),
    )


def _sums(ops: Any, torch: Any, arrays: tuple[Any, ...]) -> Iterator[Pass]:
    x, dy, out = arrays
    yield Pass(
        "addition",
        3 * x.nbytes,
        lambda: ops.eltwise_forward((x, dy), out=out),
        lambda form: _calls(torch.add, _tensor(ops, torch, x, form), _tensor(ops, torch, dy, form)),
    )
    yield Pass(
        "sums of channels",
        x.nbytes,
        lambda: ops.channel_sums(x),
        lambda form: _calls(lambda x: x.sum((0, 2, 3)), _tensor(ops, torch, x, form)),
    )


def _dropout(ops: Any, torch: Any, arrays: tuple[Any, ...]) -> Pass:
    x, out = arrays
    return Pass(
        "dropout",
        2 * x.nbytes,
        lambda: ops.dropout(x, 0.5, 1, out=out),
        lambda form: _calls(torch.nn.functional.dropout, _tensor(ops, torch, x, form)),
    )


def _update(ops: Any, torch: Any, rng: np.random.Generator) -> Pass:
    w, g, h = (rng.standard_normal(WEIGHTS, dtype=np.float32) for _ in range(3))

    def theirs(form: Any) -> Callable[[], object]:
        weight = torch.nn.Parameter(torch.from_numpy(w.copy()))
        weight.grad = torch.from_numpy(g.copy())
        step: Callable[[], object] = torch.optim.SGD([weight], RATE, 0.9, weight_decay=5e-4).step
        return step

    return Pass(
        "SGD with momentum and decay",
        5 * w.nbytes,
        lambda: ops.sgd_update(w, g, h, rate=RATE, momentum=0.9, decay=5e-4, out_w=w, out_h=h),
        theirs,
    )


def _tensor(ops: Any, torch: Any, array: Any, form: Any) -> Any:
    """A copy as PyTorch's tensor in a memory format, of the backend's type of images."""
    wide = torch.from_numpy(np.ascontiguousarray(array, np.float32))
    return wide.to(torch_type(ops.precision)).contiguous(memory_format=form)


def _calls(function: Callable[..., object], *tensors: Any) -> Callable[[], object]:
    return lambda: function(*tensors)


def _gradient(
    ops: Any, torch: Any, function: Callable[..., Any], form: Any, dy: Any, *arrays: Any
) -> Callable[[], object]:
    """The backward pass alone: the graph of one forward pass is kept."""
    arguments = [_tensor(ops, torch, array, form).requires_grad_() for array in arrays]
    result = function(*arguments)
    gradient = _tensor(ops, torch, dy, form)
    return lambda: torch.autograd.grad(result, arguments, gradient, retain_graph=True)


if __name__ == "__main__":
    raise SystemExit(main())

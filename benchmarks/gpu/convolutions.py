"""A part of the GPU benchmark: every distinct convolution of five nets, pass by pass, ours compared
with PyTorch's.

PyTorch uses cuDNN, which chooses its algorithm by trying (`cudnn.benchmark`), with channels last.
Both sides compute in full float32, TF32 and bfloat16, as far as they can. An error is the largest
difference from the definition in float64, for a part of the numbers (`conv_reference`), divided by
the largest of these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.sides import PRECISIONS, cell, here, ours, settled, synchronized
from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import Record, seconds_of
from benchmarks.kernels import conv_reference
from benchmarks.kernels.convolutions import (
    DATA,
    FORWARD,
    WEIGHTS,
    Layer,
    our_passes,
    torch_passes,
)
from ops import Backend, get_backend
from ops.cuda.conv.algorithm import ConvShape

IN_A_ROW = 5
BOUNDS = {"float32": 1e-4, "TF32": 5e-3, "bfloat16": 2e-2}  # the largest error of ours


def convolutions(record: Record, sizes: Sizes) -> None:
    """Record the milliseconds and error of each pass, and the sums of each net."""
    backends = ours(sizes.backend)
    peer = here(record)
    record.table(
        "Milliseconds of a pass",
        "net",
        "layers",
        "shape",
        "pass",
        "plan",
        "precision",
        "ours",
        "error",
        "torch",
        "torch / ours",
    )
    for net, batch, image in sizes.convolutions:
        totals = {precision: np.zeros(2) for precision in PRECISIONS}
        for layer, count in found_in(net, batch, image).items():
            for precision, taken in _measured(
                record, net, count, layer, backends, sizes.passes, peer
            ):
                totals[precision] += count * np.array(taken)
        for precision, (mine, theirs) in totals.items():
            if not (math.isnan(mine) and math.isnan(theirs)):
                cells = cell(1e3 * mine), "", cell(1e3 * theirs), cell(theirs / mine)
                record.row(net, "all", f"batch {batch}", "", "", precision, *cells)


def found_in(net: str, batch: int, image: tuple[int, int, int]) -> dict[Layer, int]:
    """The distinct convolutions of a net in their order, and the number of each."""
    from nets import Net, load_net

    made = Net(load_net(net), "TRAIN", ops=get_backend("numpy"), batch=batch, input_shape=image)
    found: dict[Layer, int] = {}
    for node in made.nodes:
        if node.layer.proto.type == "Convolution":
            source = made.wiring.values[node.bottoms[0]]
            shape = ConvShape(
                tuple(source.shape),
                node.layer.top_shape[1],
                node.layer.geometry,
                np.dtype(np.float32),
            )
            layer = Layer(shape, source.name in made.input_shapes, len(node.layer.params) > 1)
            found[layer] = found.get(layer, 0) + 1
    return found


def _measured(
    record: Record,
    net: str,
    count: int,
    layer: Layer,
    backends: dict[str, Backend],
    passes: int,
    peer: Any,
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Measure each pass of a layer in each precision and record a row for each. Yields the
    precision, and the seconds of our side and of PyTorch's."""
    host = _operands(layer)
    first = next(iter(backends.values()))
    placed = {
        key: None if array is None else _placed(first, key, array) for key, array in host.items()
    }
    theirs_of: dict[Any, Any] = {}
    for name in layer.passes:
        right = conv_reference.expected(layer.shape, name, host)
        for precision in PRECISIONS:
            mine = theirs = error = math.nan
            plan = ""
            backend = backends.get(precision)
            if backend is not None:
                placed[name][...] = math.nan
                work = in_a_row(our_passes(layer, backend, placed)[name])
                mine = (
                    seconds_of(work, repeats=passes, warmup=2, synchronize=backend.synchronize)
                    / IN_A_ROW
                )
                plan = _plan(backend, layer, name)
                error = conv_reference.off(right, backend.to_host(placed[name]))
                if not error <= BOUNDS[precision]:
                    text = f"error {error:.1e} above {BOUNDS[precision]:.0e} in {precision}"
                    record.fail(f"{text}: {net}, {layer}, {name}")
            if peer is not None:
                with settled(precision) as dtype:
                    if dtype not in theirs_of:
                        theirs_of[dtype] = torch_passes(
                            layer, host, channels_last=True, place=(peer, dtype)
                        )
                    work = in_a_row(theirs_of[dtype][name])
                    theirs = (
                        seconds_of(work, repeats=passes, warmup=2, synchronize=synchronized(peer))
                        / IN_A_ROW
                    )
            if backend is not None or peer is not None:
                cells = cell(1e3 * mine), cell(error), cell(1e3 * theirs), cell(theirs / mine)
                record.row(net, count, str(layer), name, plan, precision, *cells)
            yield precision, (mine, theirs)


def in_a_row(work: Callable[[], object]) -> Callable[[], None]:
    """A function that runs `work` IN_A_ROW times. While the device computes, the host starts the
    next run, as in a net."""

    def several() -> None:
        for _ in range(IN_A_ROW):
            work()

    return several


def _placed(backend: Backend, key: str, array: Any) -> Any:
    """An operand in the backend's layout: images and gradients of images lie as its kernels write
    them."""
    if key in ("w", "b", WEIGHTS):
        return backend.asarray(array)
    images = backend.empty(array.shape)
    images[...] = backend.asarray(array)
    return images


def _plan(backend: Backend, layer: Layer, name: str) -> str:
    """The algorithm that the backend has chosen for a pass."""
    chooser = getattr(backend, "chooser", None)
    return chooser.taken(layer.shape, name) if chooser is not None else "lowering"


def _operands(layer: Layer) -> dict[str, Any]:
    """The operands x, w, b, dy of standard normal numbers, and an array for each result."""
    rng = np.random.default_rng(0)
    shape = layer.shape
    sizes = {
        "x": shape.in_shape,
        "dy": shape.out_shape,
        "w": shape.weight_shape,
        "b": (shape.outputs,),
    }
    found: dict[str, Any] = {
        name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()
    }
    results = {FORWARD: shape.out_shape, WEIGHTS: shape.weight_shape} | (
        {} if layer.first else {DATA: shape.in_shape}
    )
    found |= {name: np.empty(size, np.float32) for name, size in results.items()}
    return found if layer.bias else found | {"b": None}

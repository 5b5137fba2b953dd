"""A part of the GPU benchmark: every distinct convolution of five nets, pass by pass, ours beside PyTorch's.

PyTorch's is cuDNN, which chooses its algorithm by trying (`cudnn.benchmark`), channels last. Both compute in full
float32, TF32 and bfloat16, as far as they can. An error is the largest difference from the definition in float64, for
a part of the numbers (`conv_reference`), divided by the largest of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks import conv_reference
from benchmarks.gpu_sides import PRECISIONS, cell, here, ours, settled, synchronized
from benchmarks.gpu_sizes import Sizes
from benchmarks.kernels import DATA, FORWARD, WEIGHTS, Layer, our_passes, torch_passes
from benchmarks.report import Record, seconds_of
from ops import Backend, get_backend
from ops.cuda.conv.algorithm import ConvShape

BOUNDS = {"float32": 1e-4, "TF32": 5e-3, "bfloat16": 2e-2}  # the largest error of ours


def convolutions(record: Record, sizes: Sizes) -> None:
    """Milliseconds and error of each pass; the sum of each net."""
    backends, peer = ours(sizes.backend), here(record)
    record.table(
        "Milliseconds of a pass", "net", "layers", "shape", "pass", "plan", "precision", "ours", "error", "torch",
        "torch / ours",
    )  # fmt: skip
    for net, batch, image in sizes.convolutions:
        totals = {precision: np.zeros(2) for precision in PRECISIONS}
        for layer, count in found_in(net, batch, image).items():
            for name in layer.passes:
                for precision, taken in _measured(record, (net, count, layer, name), backends, sizes.passes, peer):
                    totals[precision] += count * np.array(taken)
        for precision, (mine, theirs) in totals.items():
            if not (math.isnan(mine) and math.isnan(theirs)):
                cells = cell(1e3 * mine), "", cell(1e3 * theirs), cell(theirs / mine)
                record.row(net, "all", f"batch {batch}", "", "", precision, *cells)


def found_in(net: str, batch: int, image: tuple[int, int, int]) -> dict[Layer, int]:
    """The distinct convolutions of a net in their order, and how many of each."""
    from nets import Net, load_net

    made = Net(load_net(net), "TRAIN", ops=get_backend("numpy"), batch=batch, input_shape=image)
    found: dict[Layer, int] = {}
    for node in made.nodes:
        if node.layer.proto.type == "Convolution":
            source = made.wiring.values[node.bottoms[0]]
            shape = ConvShape(tuple(source.shape), node.layer.top_shape[1], node.layer.geometry, np.dtype(np.float32))
            layer = Layer(shape, source.name in made.input_shapes, len(node.layer.params) > 1)
            found[layer] = found.get(layer, 0) + 1
    return found


def _measured(
    record: Record, what: tuple[str, int, Layer, str], backends: dict[str, Backend], passes: int, peer: Any
) -> list[tuple[str, tuple[float, float]]]:
    """Seconds of one pass of a layer in each precision, ours and PyTorch's; a row for each."""
    net, count, layer, name = what
    found, host = [], _operands(layer)
    for precision in PRECISIONS:
        mine = theirs = error = math.nan
        plan, backend = "", backends.get(precision)
        if backend is not None:
            mine, host[name] = _ours(backend, layer, name, host, passes)
            plan = _plan(backend, layer, name)
            error = conv_reference.error(layer.shape, name, host)
            if not error <= BOUNDS[precision]:
                text = f"error {error:.1e} above {BOUNDS[precision]:.0e} in {precision}"
                record.fail(f"{text}: {net}, {layer}, {name}")
        if peer is not None:
            with settled(precision) as dtype:
                work = torch_passes(layer, host, channels_last=True, place=(peer, dtype))[name]
                theirs = seconds_of(work, repeats=passes, warmup=3, synchronize=synchronized(peer))
        found.append((precision, (mine, theirs)))
        if backend is not None or peer is not None:
            cells = cell(1e3 * mine), cell(error), cell(1e3 * theirs), cell(theirs / mine)
            record.row(net, count, str(layer), name, plan, precision, *cells)
    return found


def _ours(backend: Backend, layer: Layer, name: str, host: dict[str, Any], passes: int) -> tuple[float, Any]:
    """Seconds of a pass, and its result in host memory."""
    arrays = {key: None if array is None else _placed(backend, key, array) for key, array in host.items()}
    work = our_passes(layer, backend, arrays)[name]
    taken = seconds_of(work, repeats=passes, warmup=2, synchronize=backend.synchronize)
    return taken, backend.to_host(arrays[name])


def _placed(backend: Backend, key: str, array: Any) -> Any:
    """An operand as the backend lays it out: images and gradients of images lie as its kernels leave them."""
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
    """x, w, b, dy of standard normal numbers, and room for each result."""
    rng, shape = np.random.default_rng(0), layer.shape
    sizes = {"x": shape.in_shape, "dy": shape.out_shape, "w": shape.weight_shape, "b": (shape.outputs,)}
    found: dict[str, Any] = {name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()}
    results = {FORWARD: shape.out_shape, WEIGHTS: shape.weight_shape} | ({} if layer.first else {DATA: shape.in_shape})
    found |= {name: np.empty(size, np.float32) for name, size in results.items()}
    return found if layer.bias else found | {"b": None}

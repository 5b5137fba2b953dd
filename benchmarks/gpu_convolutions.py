"""A part of the GPU benchmark: every distinct convolution of five nets, pass by pass, ours beside PyTorch's.

Ours is lowering and cuBLAS; PyTorch's is cuDNN, which chooses its algorithm by trying (`cudnn.benchmark`), channels
last, in full float32, TF32 and bfloat16. An error is the largest difference from the definition in float64, for a part
of the numbers (`conv_reference`), divided by the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import conv_reference
from benchmarks.gpu_sizes import Sizes
from benchmarks.gpu_torch import PRECISIONS, here, settled, synchronized
from benchmarks.kernels import DATA, FORWARD, WEIGHTS, Layer, our_passes, torch_passes
from benchmarks.report import Record, seconds_of
from ops import Backend, get_backend

BOUND = 1e-4  # the largest error of ours


def convolutions(record: Record, sizes: Sizes) -> None:
    """Milliseconds and error of each pass; the sum of each net."""
    backend = get_backend(sizes.backend)
    peer = here(record)
    record.table(
        "Milliseconds of a pass", "net", "layers", "shape", "pass", "plan", "ours", "error",
        *(f"torch {precision}" for precision in PRECISIONS), "torch float32 / ours",
    )  # fmt: skip
    for net, batch, image in sizes.convolutions:
        totals = np.zeros(1 + len(PRECISIONS))
        for layer, count in found_in(net, batch, image).items():
            totals += count * _measured(record, net, count, layer, backend, sizes.passes, peer)
        record.row(net, "all", f"batch {batch}", "", "", 1e3 * totals[0], "", *_shown(1e3 * totals[1:], totals[0]))


def found_in(net: str, batch: int, image: tuple[int, int, int]) -> dict[Layer, int]:
    """The distinct convolutions of a net in their order, and how many of each."""
    from nets import Net, load_net

    made = Net(load_net(net), "TRAIN", ops=get_backend("numpy"), batch=batch, input_shape=image)
    found: dict[Layer, int] = {}
    for node in made._nodes:
        if node.layer.proto.type == "Convolution":
            source = made._wiring.values[node.bottoms[0]]
            shape = Shape(tuple(source.shape), tuple(node.layer.top_shape), node.layer.geometry)
            layer = Layer(shape, source.name in made.input_shapes, len(node.layer.params) > 1)
            found[layer] = found.get(layer, 0) + 1
    return found


@dataclass(frozen=True)
class Shape:
    """What `kernels.Layer` and `conv_reference` ask of a shape; ops' own needs the compiler of the CPU's kernels."""

    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    geometry: Any

    @property
    def outputs(self) -> int:
        """Channels of the result."""
        return self.out_shape[1]

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """(K, C of a group, kh, kw)."""
        return (self.outputs, self.in_shape[1] // self.geometry.groups, *self.geometry.kernel)


def _measured(
    record: Record, net: str, count: int, layer: Layer, backend: Backend, passes: int, peer: Any
) -> np.ndarray[Any, Any]:
    """Seconds of all passes of a layer, ours and PyTorch's; a row for each pass."""
    host = _operands(layer)
    arrays = {name: None if array is None else backend.asarray(array) for name, array in host.items()}
    ours, total = our_passes(layer, backend, arrays), np.zeros(1 + len(PRECISIONS))
    for name in layer.passes:
        taken = seconds_of(ours[name], repeats=passes, warmup=2, synchronize=backend.synchronize)
        host[name] = backend.to_host(arrays[name])
        error = conv_reference.error(layer.shape, name, host)
        theirs = [float("nan")] * len(PRECISIONS)
        if peer is not None:
            for at, precision in enumerate(PRECISIONS):
                with settled(precision) as dtype:
                    work: Callable[[], object] = torch_passes(layer, host, channels_last=True, place=(peer, dtype))[
                        name
                    ]
                    theirs[at] = seconds_of(work, repeats=passes, warmup=3, synchronize=synchronized(peer))
        total += (taken, *theirs)
        plan = getattr(backend, "plan", lambda *_: "lowering")(layer.shape, name)
        record.row(net, count, str(layer), name, plan, 1e3 * taken, error, *_shown(1e3 * np.array(theirs), taken))
        if not error <= BOUND:
            record.fail(f"error {error:.1e} above {BOUND['float32']:.0e}: {net}, {layer}, {name}")
    return total


def _shown(milliseconds: np.ndarray[Any, Any], ours: float) -> list[Any]:
    """PyTorch's times, and its float32's by ours; a dash for what was not measured."""
    cells: list[Any] = ["-" if np.isnan(one) else float(one) for one in milliseconds]
    return [*cells, "-" if np.isnan(milliseconds[0]) else float(milliseconds[0]) / 1e3 / ours]


def _operands(layer: Layer) -> dict[str, Any]:
    """x, w, b, dy of standard normal numbers, and room for each result."""
    rng, shape = np.random.default_rng(0), layer.shape
    sizes = {"x": shape.in_shape, "dy": shape.out_shape, "w": shape.weight_shape, "b": (shape.outputs,)}
    found: dict[str, Any] = {name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()}
    results = {FORWARD: shape.out_shape, WEIGHTS: shape.weight_shape} | ({} if layer.first else {DATA: shape.in_shape})
    found |= {name: np.empty(size, np.float32) for name, size in results.items()}
    return found if layer.bias else found | {"b": None}

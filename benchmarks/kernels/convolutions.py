"""A convolution of a net with made-up images, and its passes by our backend and by PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.training.training import WORKLOADS
from ops import BFLOAT16

PASSES = FORWARD, DATA, WEIGHTS = "forward", "backward-data", "backward-weights"


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
    def depthwise(self) -> bool:
        """Whether each filter reads one channel: products of numbers, not of matrices."""
        return bool(self.shape.geometry.groups > 1 and self.shape.weight_shape[1] == 1)

    def bytes(self, stored: Any = np.float32) -> int:
        """The bytes of the images that each pass reads or writes, once. `stored`: the type of
        images inside a net. A layer that reads the data gets them in float32."""
        sizes = [np.dtype(kind).itemsize for kind in (np.float32 if self.first else stored, stored)]
        shapes = self.shape.in_shape, self.shape.out_shape
        return sum(size * int(np.prod(shape)) for size, shape in zip(sizes, shapes, strict=True))

    @property
    def flops(self) -> int:
        """The FLOPs of each pass: two for every product in the definition."""
        return 2 * int(np.prod(self.shape.out_shape)) * int(np.prod(self.shape.weight_shape[1:]))


def layers_of(net: str, ops: Any) -> Counter[Layer]:
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


def stored_by(ops: Any) -> Any:
    """The type of the images inside a net on this backend."""
    return BFLOAT16 if ops.stores_bfloat16 else np.dtype(np.float32)


def torch_type(precision: str) -> Any:
    """The dtype of PyTorch's operands, or None for that of our arrays."""
    import torch

    return torch.bfloat16 if precision == "bf16" else None


def algorithm_of(ops: Any, layer: Layer, name: str) -> str:
    """The name of the algorithm that computes a pass."""
    chosen = ops.chooser(layer.shape, name, ops.stores_bfloat16)
    return chosen.mode.name if hasattr(chosen, "mode") else type(chosen).__name__


def made_up(layer: Layer, ops: Any) -> dict[str, Any]:
    """The operands x, w, b, dy of standard normal numbers, laid out as in training, and an array
    for each pass's result."""
    rng = np.random.default_rng(0)
    shape = layer.shape

    def normal(size: tuple[int, ...], new: Callable[..., Any], kind: Any = np.float32) -> Any:
        array = new(size, kind)
        array[...] = rng.standard_normal(size, dtype=np.float32)
        return array

    stored = stored_by(ops)
    data = (np.empty, np.float32) if layer.first else (ops.empty, stored)
    found = {"x": normal(shape.in_shape, *data), "dy": normal(shape.out_shape, ops.empty, stored)}
    found["w"], found["b"] = (
        normal(shape.weight_shape, np.empty),
        normal((shape.outputs,), np.empty),
    )
    if not layer.bias:
        found["b"] = None
    results = {
        FORWARD: ops.empty(shape.out_shape, stored),
        WEIGHTS: np.empty(shape.weight_shape, np.float32),
    }
    if not layer.first:
        results[DATA] = ops.empty(shape.in_shape, stored)
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
        wide = np.asarray(arrays[name], np.float32)
        return torch.from_numpy(wide).to(device=device, dtype=dtype)

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

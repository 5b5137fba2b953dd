"""Weights by the names of torch's modules, as torchvision's and timm's files have them.

The rule: layer `layer1.0.conv1` has `layer1.0.conv1.weight` and `.bias`. A BatchNorm `bn1` has
`bn1.running_mean` and `bn1.running_var`. A Scale above a norm has the norm's `weight` and `bias`.
The end of a layer's name may change this (`PARTS`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.spec import LayerSpec
from nets.errors import NetError
from nets.files.shared import Weights, lent
from nets.files.timm_names import in_torchvision
from nets.files.torch_order import by_order

Arrays = Mapping[str, NDArray[Any]]
CONVOLUTIONS = ("Convolution", "Deconvolution", "DepthwiseConvolution", "ConvolutionDepthwise")
NORMS = ("BatchNorm", "GroupNorm", "LayerNorm")
# blocks with the `bias_term` of each type that has a weight
BIASED = {
    **dict.fromkeys(CONVOLUTIONS, "convolution_param"),
    "InnerProduct": "inner_product_param",
    "Embed": "embed_param",
}
TURNED = ("Deconvolution", "Embed")  # types whose weight does not begin with the outputs
LINEAR = "linear"  # a 1 x 1 convolution whose weight is a matrix in torch
# the last part of a layer's name -> the axes after the first of torch's parameter of this name
PARTS = {"layer_scale": 2, "gamma": 0}
TRACKED = "num_batches_tracked"  # of torch's BatchNorm; no number of Convoy's depends on it


@dataclass(frozen=True)
class Named:
    """A layer and torch's names of the blobs that it owns, in the order of its blobs."""

    layer: LayerSpec
    names: tuple[str, ...]

    @property
    def part(self) -> str:
        """The last part of the layer's name, if it has a meaning here."""
        part = self.layer.proto.name.rpartition("/")[2]
        return part if part == LINEAR or part in PARTS else ""

    @property
    def sizes(self) -> list[tuple[str, int]]:
        """Each name, with the first size of its array; 0 if only the whole net knows it."""
        kind = self.layer.proto.type
        block: Any = getattr(self.layer.proto, BIASED[kind]) if kind in BIASED else None
        outputs = int(block.num_output) if block is not None and kind not in TURNED else 0
        return [(name, outputs) for name in self.names]

    def from_torch(self, arrays: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Return the layer's blobs."""
        kind = self.layer.proto.type
        if kind == "BatchNorm":
            count = np.float32(_counted(self.layer))
            return (*(array * count for array in arrays), np.array([count], arrays[0].dtype))
        first = arrays[0]
        if kind in CONVOLUTIONS and first.ndim == 2:
            first = first[:, :, None, None]
        elif kind == "InnerProduct" and first.ndim > 2:
            first = first.reshape(len(first), -1)
        elif kind == "Scale":
            first = first.reshape(-1)
        return (first, *arrays[1:])

    def to_torch(self, blobs: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return torch's arrays by name."""
        if self.layer.proto.type == "BatchNorm":
            *sums, (weight,) = blobs
            blobs = [sum_ / weight if weight else sum_ for sum_ in sums]
        elif self.part == LINEAR:
            blobs = [blobs[0].reshape(blobs[0].shape[:2]), *blobs[1:]]
        elif self.part:
            blobs = [blobs[0].reshape(-1, *(1,) * PARTS[self.part]), *blobs[1:]]
        return dict(zip(self.names, blobs, strict=True))


def named(layers: Sequence[LayerSpec]) -> dict[str, Named]:
    """Return torch's names of the blobs of each layer that has some. `layers` are those of a net in
    one state, or in all. Layers of types that torch does not have are left out."""
    makers: dict[str, LayerSpec] = {}
    shared = lent(layers)
    found: dict[str, Named] = {}
    for layer in layers:
        name = layer.proto.name
        names = _names(layer, [makers[blob] for blob in layer.proto.bottom if blob in makers])
        owned = tuple(each for at, each in enumerate(names) if (name, at) not in shared)
        if owned:
            found[name] = Named(layer, owned)
        makers |= dict.fromkeys(layer.proto.top, layer)
    return found


@dataclass(frozen=True, eq=False)
class FromTorch:
    """The weights in a file. `matched` layers have all their arrays there, and of these `ordered`
    have them under other names. Other arrays are in `weights` by the names of their modules."""

    weights: Weights
    matched: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()


def from_torch(arrays: Arrays, layers: Sequence[LayerSpec]) -> FromTorch:
    """Match the arrays of a file to layers: by torchvision's names or by timm's, and then by their
    order (`torch_order`)."""
    known = named(layers)
    rest = {name: array for name, array in arrays.items() if not name.endswith(TRACKED)}
    wanted = {name: size for mine in known.values() for name, size in mine.sizes}
    by = in_torchvision(rest, set(wanted))
    rest = {by.get(name, name): array for name, array in rest.items()}
    lacking = [(name, size) for name, size in wanted.items() if name not in rest]
    order = by_order({name: of for name, of in rest.items() if name not in wanted}, lacking)
    rest = {order.get(name, name): array for name, array in rest.items()}
    ordered = set(order.values())
    found: Weights = {}
    for layer, mine in known.items():
        if all(name in rest for name in mine.names):
            found[layer] = mine.from_torch([rest.pop(name) for name in mine.names])
    matched = tuple(found)
    for name, array in rest.items():
        module = name.rpartition(".")[0] or name
        found[module] = (*found.get(module, ()), array)
    return FromTorch(
        found, matched, tuple(name for name in matched if ordered & set(known[name].names))
    )


def to_torch(
    weights: Mapping[str, Sequence[NDArray[Any]]], layers: Sequence[LayerSpec], file: str
) -> dict[str, NDArray[Any]]:
    """Return the weights by torch's names. Raises NetError for layers that torch does not have, and
    for names that two layers have."""
    known = named(layers)
    found: dict[str, NDArray[Any]] = {}
    problems = []
    for layer, blobs in weights.items():
        if layer not in known:
            problems.append(f"{file}: layer '{layer}': torch has no names for its weights")
            continue
        for name, array in known[layer].to_torch(blobs).items():
            if name in found:
                problems.append(f"{file}: layer '{layer}': another layer has '{name}', too")
            found[name] = array
    if problems:
        raise NetError(problems)
    return found


def _names(layer: LayerSpec, makers: Sequence[LayerSpec]) -> tuple[str, ...]:
    """Return torch's names of the layer's blobs, () if it has none. `makers`: the layers below."""
    proto = layer.proto
    kind = proto.type
    module = proto.name.replace("/", ".")
    if proto.name.rpartition("/")[2] == LINEAR:
        module = module.rpartition(".")[0]
    if kind == "BatchNorm":
        return f"{module}.running_mean", f"{module}.running_var"
    if kind in BIASED:
        block: Any = getattr(proto, BIASED[kind])
        return (f"{module}.weight", f"{module}.bias")[: 1 + block.bias_term]
    if kind == "PReLU":
        return (f"{module}.weight",)
    if kind != "Scale" or len(proto.bottom) > 1:
        return ()
    if proto.name.rpartition("/")[2] in PARTS:
        return (module,)
    if makers and makers[0].proto.type in NORMS:
        module = makers[0].proto.name.replace("/", ".")
    return (f"{module}.weight", f"{module}.bias")[: 1 + proto.scale_param.bias_term]


def _counted(layer: LayerSpec) -> float:
    """Return the weight of running statistics that come from a file: as many batches as training
    remembers, rounded down to a power of two, so that sums and means are exact."""
    left = 1 - float(layer.proto.batch_norm_param.moving_average_fraction)
    return 2.0 ** math.floor(math.log2(1 / left)) if 0 < left < 1 else 1.0

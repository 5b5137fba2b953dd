"""What every layer is: shapes first, then forward and backward on arrays it is handed.

What lives here: the `Layer` interface, the registry of kinds, buffers that are kept between passes. What
never: blob
names or the order of layers; a layer sees only its own bottoms, tops and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from nets.errors import NetError, did_you_mean
from nets.params import ParamSpec, check_filler
from nets.schema import caffe_pb2 as caffe
from nets.schema.layer_types import LAYER_TYPES
from nets.spec import LayerSpec
from ops import Array, Backend

Shape: TypeAlias = tuple[int, ...]
Blobs: TypeAlias = Sequence[Array]


@dataclass(frozen=True)
class Setup:
    """What shapes depend on besides the bottoms: the phase, rows per pass, (C, H, W) of the data source."""

    phase: str
    batch: int | None
    input_shape: Shape | None


@dataclass(frozen=True)
class Run:
    """One pass: rows [low, high) of a batch of `whole` rows, at training step `step`, in `phase`."""

    phase: str
    seed: int
    step: int
    low: int
    high: int
    whole: int

    @property
    def share(self) -> float:
        """The part of the whole batch that this pass computes."""
        return (self.high - self.low) / self.whole


@dataclass(frozen=True)
class Values:
    """The arrays of one layer in one pass, for its backward."""

    bottoms: list[Array]
    tops: list[Array]
    blobs: Blobs


Gradients: TypeAlias = tuple[list[Array | None], tuple[Array, ...]]


class Layer:
    """One layer. Subclasses give `_shape`, `forward`, `backward` and say in class attributes what they are.

    `bottoms`/`tops`: how many (least, most). `is_source`: its tops are fed, it is never run. `scores`: it
    belongs to
    the FC phase and its first top is a scalar. `default_weight`: its loss weight when the prototxt gives
    none.
    `in_place_ok`: it may write its top over its bottom. `top_is_free`: a later layer may write over its top.
    `labels`: index of the bottom that is no function of parameters.
    """

    bottoms: ClassVar[tuple[int, int]] = (1, 1)
    tops: ClassVar[tuple[int, int]] = (1, 1)
    is_source: ClassVar[bool] = False
    is_dense: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True
    default_weight: ClassVar[float] = 0.0
    in_place_ok: ClassVar[bool] = False
    top_is_free: ClassVar[bool] = True
    labels: ClassVar[int | None] = None

    def __init__(self, spec: LayerSpec, ops: Backend, dtype: Any = np.float32) -> None:
        self.proto, self.where, self.ops, self.dtype = spec.proto, spec.where, ops, np.dtype(dtype)
        self.name: str = spec.proto.name
        self.in_place = False
        self.params: list[ParamSpec] = []
        self._buffers: dict[str, Array] = {}
        weights = list(spec.proto.loss_weight)
        self.loss_weight = float(weights[0]) if weights else self.default_weight

    def __repr__(self) -> str:
        return f"<{self.proto.type} {self.name} params={[param.shape for param in self.params]}>"

    def setup(self, shapes: Sequence[Shape], setup: Setup) -> list[Shape]:
        """Check the layer against its bottoms, fill `params` and return the shapes of its tops; NetError."""
        self._check_count("bottom", len(self.proto.bottom), self.bottoms)
        self._check_count("top", len(self.proto.top), self.tops)
        if any(self.proto.loss_weight) and not (self.scores and self.differentiable):
            raise self.error("loss_weight", "this type is no loss, expected no weight")
        self.params = []
        return self._shape(list(shapes), setup)

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        raise NotImplementedError

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        """Return one array per top; they stay valid until the layer's next forward."""
        raise NotImplementedError

    def backward(
        self, grads: list[Array | None], values: Values, run: Run, wanted: list[bool], out: Blobs | None
    ) -> Gradients:
        """Return (one gradient per bottom, None where not `wanted`; one per parameter, in `out` if given)."""
        raise NotImplementedError

    def error(self, key: str, text: str) -> NetError:
        """Return the error that names this layer's place and `key`."""
        return self.where.error(key, text)

    def forget(self, prefix: str) -> None:
        """Let go of the buffers whose key begins with `prefix`: someone else may still be reading them."""
        for key in [key for key in self._buffers if key.startswith(prefix)]:
            del self._buffers[key]

    def buffer(self, key: str, shape: Shape, dtype: Any = None) -> Array:
        """Return an array kept under `key` between passes; its contents are undefined."""
        kept = self._buffers.get(key)
        if kept is None or tuple(kept.shape) != tuple(shape):
            kept = self._buffers[key] = self.ops.empty(tuple(shape), self.dtype if dtype is None else dtype)
        return kept

    def declare(self, name: str, shape: Shape, filler: caffe.FillerParameter, key: str) -> None:
        """Append a parameter; its multipliers come from the layer's `param` entry of the same index."""
        check_filler(filler, shape, self.where, key)
        index = len(self.params)
        given = self.proto.param[index] if index < len(self.proto.param) else caffe.ParamSpec()
        self.params.append(
            ParamSpec(self.name, index, name, shape, filler, float(given.lr_mult), float(given.decay_mult))
        )

    def _check_count(self, key: str, found: int, allowed: tuple[int, int]) -> None:
        if not allowed[0] <= found <= allowed[1]:
            least, most = allowed
            text = str(least) if least == most else f"{least} to {most}"
            raise self.error(key, f"found {found}, expected {text} for type '{self.proto.type}'")


KINDS: dict[str, type[Layer]] = {}


def register(kind: str) -> Callable[[type[Layer]], type[Layer]]:
    """Class decorator: the class computes prototxt layers of type `kind`."""

    def add(cls: type[Layer]) -> type[Layer]:
        KINDS[kind] = cls
        return cls

    return add


def make_layer(spec: LayerSpec, ops: Backend, dtype: Any = np.float32) -> Layer:
    """Return the layer of `spec.proto.type`; NetError names the nearest type there is."""
    kind = spec.proto.type
    if kind in KINDS:
        return KINDS[kind](spec, ops, dtype)
    if kind in LAYER_TYPES:
        text = f"layer type '{kind}' of Caffe is not supported yet, expected one of {', '.join(sorted(KINDS))}"
    else:
        text = f"found '{kind}', expected a layer type{did_you_mean(kind, LAYER_TYPES)}"
    raise spec.where.error("type", text)

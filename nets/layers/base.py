"""The base class of all layers: it checks shapes, then runs forward and backward on given arrays.

Also the registry of kinds, and the buffers that a layer keeps between passes. A layer knows its
bottoms, tops and parameters. The graph knows the names of blobs and the order of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import ParamSpec, check_filler
from nets.definition.spec import LayerSpec
from nets.errors import NetError
from nets.layers.run import Run as Run  # this module exports it
from nets.schema import caffe_pb2 as caffe
from ops import Array, Backend

# At most so many numbers in one array: 4 TB of float32. `runtime.plan.room` checks whether a net
# fits into the memory of this machine.
MOST_NUMBERS = 2**40

Shape: TypeAlias = tuple[int, ...]
Blobs: TypeAlias = Sequence[Array]


@dataclass(frozen=True)
class Setup:
    """The facts that shapes depend on, in addition to the bottoms: the phase, the rows per pass and
    the shape of the data source's samples.

    `input_shape` is the shape of the first top, or of each top by name (HDF5Data). `streams` are
    the sizes (T, N) that the net declares if its inputs are (T, N, ...): its rows are then streams.
    """

    phase: str
    batch: int | None
    input_shape: Shape | Mapping[str, Shape] | None
    streams: tuple[int, int] | None = None


@dataclass(frozen=True)
class Values:
    """The arrays of one layer in one pass, as its backward needs them."""

    bottoms: list[Array]
    tops: list[Array]
    blobs: Blobs


Gradients: TypeAlias = tuple[list[Array | None], tuple[Array, ...]]

TOP = "top"
GRADIENT = "gradient"
SAVED = "saved"


@dataclass(frozen=True)
class Need:
    """An array that a layer requests from `buffer` under `key`.

    `life` is the array's use: a TOP, the GRADIENT of bottom number `at`, or SAVED from forward to
    backward. If `dtype` is None, the array has the net's dtype.
    """

    key: str
    shape: Shape
    life: str
    at: int = 0
    dtype: Any = None


class Layer:
    """One layer. Subclasses define `_shape`, `forward` and `backward`, and describe themselves in
    class attributes.

    of_caffe              Caffe has this type
    bottoms, tops         allowed numbers of bottoms and tops: (least, most)
    is_source             its tops are inputs of the net; the layer is never run
    is_dense              it belongs to the FC phase
    scores                it belongs to the FC phase, and its first top is a scalar to report
    differentiable        it has a backward pass
    default_weight        the loss weight of the first top when the prototxt gives none
    in_place_ok           it may write its top over its bottom
    top_is_free           a later layer may write over its top
    passes_gradient       a bottom's gradient may be a view of the top's gradient
    labels                index of the bottom that must not depend on parameters
    takes_soft            as labels it takes arrays of the scores' shape, such as probabilities
    replayable            its passes may be replayed (`nets.graph.replayed_layers`): its own Python
                          only calls operations, and keeps nothing that differs from pass to pass
    time_first            its bottoms are (T, N, ...): T steps of time of N streams

    Attributes for the memory plan:

    planned               these attributes and `needs` name all arrays that it keeps and reads
    views                 its tops are views of bottom `view_of`
    reads_bottoms         its backward reads the numbers of its bottoms
    reads_tops            its backward reads the numbers of its tops
    gradient_in_place_ok  it may write the gradient of its bottom over the gradient of its top
    gradient_parts        with `passes_gradient`: each bottom's gradient is another part of the
                          top's gradient
    rectifies             its forward can take the maximum with 0 as it writes (`rectify`)
    takes_bfloat16        its images and their gradients may be bfloat16, in any mixture with
                          float32 (`holds_bfloat16`)
    """

    of_caffe: ClassVar[bool] = True
    bottoms: ClassVar[tuple[int, int]] = (1, 1)
    tops: ClassVar[tuple[int, int]] = (1, 1)
    is_source: ClassVar[bool] = False
    is_dense: ClassVar[bool] = False
    scores: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True
    default_weight: ClassVar[float] = 0.0
    in_place_ok: ClassVar[bool] = False
    top_is_free: ClassVar[bool] = True
    passes_gradient: bool = False
    labels: ClassVar[int | None] = None
    takes_soft: ClassVar[bool] = False
    time_first: ClassVar[bool] = False
    replayable: bool = False  # not inherited: a subclass may do other work
    planned: ClassVar[bool] = False
    views: bool = False
    view_of: int = 0
    reads_bottoms: bool = True
    reads_tops: bool = True
    gradient_in_place_ok: ClassVar[bool] = False
    gradient_parts: ClassVar[bool] = False
    rectifies: ClassVar[bool] = False
    takes_bfloat16: bool = False

    phase: str  # the layer's own phase, which replaces the net's; "" if it has none

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "replayable" not in vars(cls):
            cls.replayable = False

    def __init__(self, spec: LayerSpec, ops: Backend, dtype: Any = np.float32) -> None:
        self.proto = spec.proto
        self.where = spec.where
        self.ops = ops
        self.dtype = np.dtype(dtype)
        self.name: str = spec.proto.name
        self.frozen = spec.frozen  # its parameters and statistics stay as they are
        self.in_place = False
        self.over_gradient = False  # the bottom's gradient is written over the top's
        self.rectify = False  # this layer does the work of the in-place ReLU above it
        self.written: frozenset[int] = frozenset()  # bottoms that lie in the top already
        self.params: list[ParamSpec] = []
        # On a device: the loss, and the number that `told` explains. The host reads them with the
        # scores.
        self.verdict: Array | None = None
        self.numbers: Array | None = (
            None  # `step_numbers` on a device, for passes that are replayed
        )
        self.dtypes: dict[str, Any] = {}  # of buffers, by key, where it is not the net's dtype
        self._buffers: dict[str, Array] = {}
        self.phase = caffe.Phase.Name(spec.proto.phase) if spec.proto.HasField("phase") else ""
        given = [float(weight) for weight in spec.proto.loss_weight]
        count = len(spec.proto.top)
        self.loss_weights = given or [self.default_weight, *[0.0] * (count - 1)][:count]

    def __repr__(self) -> str:
        return f"<{self.proto.type} {self.name} params={[param.shape for param in self.params]}>"

    def setup(self, shapes: Sequence[Shape], setup: Setup) -> list[Shape]:
        """Check the layer against the shapes of its bottoms, fill `params` and return the shapes of
        its tops. Raises NetError if a bottom, top, weight or parameter is not allowed."""
        self._check_count("bottom", len(self.proto.bottom), self.bottoms)
        self._check_count("top", len(self.proto.top), self.tops)
        self._check_weights()
        if len(self.proto.propagate_down) not in (0, len(shapes)):
            text = (
                f"found {len(self.proto.propagate_down)}, expected none or {len(shapes)}, "
                "one per bottom"
            )
            raise self.error("propagate_down", text)
        self.params = []
        tops = self._shape(list(shapes), replace(setup, phase=self.phase or setup.phase))
        if len(self.proto.param) > len(self.params):
            found = (
                f"found {len(self.proto.param)}, expected at most {len(self.params)}, "
                "one per parameter"
            )
            raise self.error("param", f"{found} of type '{self.proto.type}'")
        for what, shape in (
            *(("top", shape) for shape in tops),
            *((p.name, p.shape) for p in self.params),
        ):
            if math.prod(shape) > MOST_NUMBERS:
                text = (
                    f"its {what} would have shape {shape}, expected at most {MOST_NUMBERS} numbers"
                )
                raise self.error("", text)
        return tops

    def label_counts(self) -> tuple[int, ...]:
        """Return how often each class was found for each label in the last pass: the number of
        classes C, then cell and count, cell and count, where a cell is label * C + class. Empty if
        the layer does not count."""
        return ()

    @property
    def learns(self) -> bool:
        """Whether a gradient changes a parameter of the layer."""
        return not self.frozen and any(param.lr_mult for param in self.params)

    def unlearned(self, at: int) -> bool:
        """Whether the rate of parameter number `at` is 0, so that its gradient need not be
        computed: zeros stand for it, as in Caffe. A backend that records repeats only operations,
        and a fill is none, so it computes the gradient."""
        return not self.params[at].lr_mult and not self.ops.records

    def no_gradient(self, at: int, out: Blobs | None) -> Array:
        """Return zeros for the gradient of parameter number `at`, in `out[at]` if it is given."""
        if not out:
            return self.ops.zeros(self.params[at].shape, self.dtype)
        out[at][...] = 0
        return out[at]

    def seen(self, run: Run) -> Run:
        """Return the pass as the layer sees it: in the layer's own phase, if it has one."""
        return replace(run, phase=self.phase) if self.phase else run

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        raise NotImplementedError

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        """Return one array per top. The arrays stay valid until the layer's next forward."""
        raise NotImplementedError

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        """Return one gradient per bottom and one per parameter.

        A bottom that is not `wanted` may get None. Gradients of parameters are written into `out`,
        if given.
        """
        raise NotImplementedError

    def needs(self, bottoms: Sequence[Shape], tops: Sequence[Shape], training: bool) -> list[Need]:
        """Return the arrays that the layer requests from `buffer` in a pass: by default "top" and,
        in training, "bottom"."""
        found = [] if self.in_place or self.views else [Need("top", tops[0], TOP)]
        return [*found, Need("bottom", bottoms[0], GRADIENT)] if training else found

    def holds_bfloat16(self, bottom: int | None = None) -> bool:
        """Whether bottom number `bottom`, or the first top if it is None, may be bfloat16 images,
        and its gradient, too. Asked only on a backend that stores them (`stores_bfloat16`)."""
        return self.takes_bfloat16

    def parts_of_top(self) -> list[slice] | None:
        """For layers that join their bottoms along axis 1: return the slice of the top that each
        bottom fills. Others return None."""
        return None

    def products(self, bottoms: Sequence[Shape], tops: Sequence[Shape]) -> int:
        """Return how many multiplications by matrix parameters a forward pass makes. Backward makes
        as many for the gradients of parameters, and as many for the gradients of data."""
        return 0

    def scratch(self, bottoms: Sequence[Shape], training: bool) -> int:
        """Return how many bytes of scratch memory its operations take from the backend at most."""
        return 0

    def reorders(self, shape: Shape) -> bool:
        """Whether the backend stores images of this shape in another order than the logical one."""
        return (
            self.ops.channels_last and len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1
        )

    def place(self, key: str, array: Array) -> None:
        """Use `array` as the buffer of `key` from now on."""
        self._buffers[key] = array

    def error(self, key: str, text: str) -> NetError:
        """Return the error that names this layer's place and `key`."""
        return self.where.error(key, text)

    def forget(self, prefix: str) -> None:
        """Drop the buffers whose keys begin with `prefix`, because another user may still read
        them."""
        for key in [key for key in self._buffers if key.startswith(prefix)]:
            del self._buffers[key]

    def buffer(self, key: str, shape: Shape, dtype: Any = None) -> Array:
        """Return an array kept under `key` between passes; its contents are undefined."""
        kept = self._buffers.get(key)
        if kept is None or tuple(kept.shape) != tuple(shape):
            kept = self._buffers[key] = self.ops.empty(
                tuple(shape), self.dtypes.get(key, self.dtype) if dtype is None else dtype
            )
        return kept

    def number(self, value: float) -> Array:
        """Return a scalar top with this value."""
        top = self.buffer("number", ())
        top[...] = value
        return top

    def declare(self, name: str, shape: Shape, filler: caffe.FillerParameter, key: str) -> None:
        """Append a parameter. Its multipliers come from the layer's `param` entry of the same
        index."""
        check_filler(filler, shape, self.where, key)
        index = len(self.params)
        given = self.proto.param[index] if index < len(self.proto.param) else caffe.ParamSpec()
        self.params.append(
            ParamSpec(
                self.name, index, name, shape, filler, float(given.lr_mult), float(given.decay_mult)
            )
        )

    def declare_statistic(self, name: str, shape: Shape, keep: float) -> None:
        """Append a running statistic, which starts at 0 and is never learned (see
        ParamSpec.keep)."""
        index = len(self.params)
        if index < len(self.proto.param) and self.proto.param[index].lr_mult != 0:
            raise self.error(
                "param.lr_mult",
                ("a running statistic is not learned, expected lr_mult 0 or no param"),
            )
        filler = caffe.FillerParameter(type="constant", value=0)
        self.params.append(ParamSpec(self.name, index, name, shape, filler, 0.0, 0.0, keep))

    def told(self, number: float) -> str:
        """Return a description of the fault that the layer found in its input, "" if there is none.

        `number` is the second number of the layer's `verdict`.
        """
        return ""

    def step_numbers(self, run: Run) -> NDArray[Any] | None:
        """Return the numbers that differ from pass to pass over as many rows. None if every pass
        does the same work. A layer with `numbers` reads them there."""
        return None

    def weight(self, grads: Sequence[Array | None]) -> float:
        """Return the gradient of a loss layer's scalar first top: its loss weight plus the gradient
        from the layers above."""
        if (found := grads[0]) is None:
            return 0.0
        # a loss's own weight stays on the host, see Gradients.seed
        return float(found if isinstance(found, np.ndarray) else self.ops.to_host(found))

    def _check_weights(self) -> None:
        if len(self.loss_weights) != len(self.proto.top):
            text = f"found {len(self.loss_weights)}, expected one per top, {len(self.proto.top)}"
            raise self.error("loss_weight", text)
        if any(self.loss_weights) and not self.differentiable:
            raise self.error("loss_weight", "this type has no gradient, expected no weight")
        if self.scores and any(self.loss_weights[1:]):
            raise self.error(
                "loss_weight",
                ("only the first top of this type has a gradient, expected 0 for the others"),
            )

    def _check_count(self, key: str, found: int, allowed: tuple[int, int]) -> None:
        if not allowed[0] <= found <= allowed[1]:
            least, most = allowed
            text = str(least) if least == most else f"{least} to {most}"
            raise self.error(key, f"found {found}, expected {text} for type '{self.proto.type}'")


KINDS: dict[str, type[Layer]] = {}


def register(kind: str) -> Callable[[type[Layer]], type[Layer]]:
    """Return a class decorator: the class computes prototxt layers of type `kind`."""

    def add(cls: type[Layer]) -> type[Layer]:
        KINDS[kind] = cls
        return cls

    return add

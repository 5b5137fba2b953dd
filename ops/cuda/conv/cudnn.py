"""cuDNN's convolutions, through NVIDIA's frontend: a graph of one operation for each pass.

The only file that imports `cudnn`. Its tensors have the dimensions N, C, H, W whatever lies in
memory; strides say that images lie as [N][H][W][C], with `step` numbers from pixel to pixel, and
weights as [K][kh][kw][C/groups]. Everything is said to it: what it would infer of layouts and of
gradients' sizes is not what we have.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np

from ops.cuda.conv.algorithm import ConvShape, Direction
from ops.cuda.conv.weight_layouts import WeightOrder
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import ALIGNED, address
from ops.cuda.repeats import Call
from ops.errors import Array, OpsError, Shape
from ops.holding import holds_lock

LIBRARY = "libcudnn.so.9"
X = 1  # what tensors are called in a graph: images, weights, images; or their gradients
W = 2
Y = 3
Steps = tuple[int, int]  # numbers from pixel to pixel of x, and of y


class CudnnMissing(OpsError):
    """cuDNN, or what it stands on, is not here."""


class Library:
    """cuDNN in one thread: its handle, and which kinds of plans may be taken.

    `deterministic` leaves out engines whose results differ from run to run. Factors are rounded in
    tensor cores only where `precision` is not "full"; the rounding is TF32's with "bf16" too, since
    cuDNN would round to float16 else.
    """

    def __init__(self, precision: str, stream: int, *, deterministic: bool) -> None:
        holds_lock("cuDNN is loaded")
        try:
            import cudnn
        except ImportError as missing:
            raise CudnnMissing(
                f"cudnn cannot be imported ({missing}); install the extra 'cudnn'"
            ) from None
        here = _start()
        try:
            self.version = str(cudnn.backend_version_string())
            self.handle = cudnn.create_handle()
            cudnn.set_stream(self.handle, stream)
        except Exception as error:  # noqa: BLE001  # whatever it raises, there is lowering
            absent = "" if here else f"; there is no {LIBRARY}: install nvidia-cudnn-cu13"
            raise CudnnMissing(f"cuDNN does not start ({first_line(error)}{absent})") from None
        self.module = cudnn
        notes = cudnn.numerical_note
        self.left_out = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION]
        self.left_out += [notes.TENSOR_CORE] if precision == "full" else []
        self.left_out += [notes.NONDETERMINISTIC] if deterministic else []

    def __repr__(self) -> str:
        return f"<cuDNN {self.version}>"


def _start() -> bool:
    """Have cuDNN load its parts, with the interpreter's lock let go: the frontend would hold it,
    and a process whose event loop stands still counts as dead (`ops.backends.cuda_driver`). False:
    the library is not here."""
    try:
        # the one that the frontend has found, under the name that it is loaded by
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    handle = ctypes.c_void_p()
    if library.cudnnCreate(ctypes.byref(handle)) == 0:
        library.cudnnDestroy(handle)
    return True


def graph_of(
    cudnn: Any, shape: ConvShape, direction: Direction, steps: Steps, **options: Any
) -> Any:
    """The graph of one pass of a float32 convolution; `options` are pygraph's."""
    real = cudnn.data_type.FLOAT
    graph = cudnn.pygraph(
        io_data_type=real, intermediate_data_type=real, compute_data_type=real, **options
    )
    _, own, *kernel = shape.weight_shape
    tensors = {
        X: (shape.in_shape, steps[0]),
        # fewer channels than x has say how many groups there are
        W: ((shape.outputs, own, *kernel), own),
        Y: (shape.out_shape, steps[1]),
    }
    written = {Direction.FORWARD: Y, Direction.DATA: X, Direction.WEIGHTS: W}[direction]
    given = {
        uid: graph.tensor(dim=list(dim), stride=strides(dim, step), data_type=real, uid=uid)
        for uid, (dim, step) in tensors.items()
        if uid != written
    }
    g = shape.geometry
    windows = {"padding": list(g.pad), "stride": list(g.stride), "dilation": list(g.dilation)}
    if direction is Direction.FORWARD:
        result = graph.conv_fprop(image=given[X], weight=given[W], **windows)
    elif direction is Direction.DATA:
        result = graph.conv_dgrad(loss=given[Y], filter=given[W], **windows)
    else:
        result = graph.conv_wgrad(image=given[X], loss=given[Y], **windows)
    dim, step = tensors[written]
    result.set_output(True).set_data_type(real).set_dim(list(dim)).set_stride(
        strides(dim, step)
    ).set_uid(written)
    return graph


def strides(dim: Shape, step: int) -> list[int]:
    """Of (N, C, H, W), in numbers, where memory has [N][H][W] pixels `step` numbers apart."""
    _, _, high, wide = dim
    return [high * wide * step, 1, wide * step, step]


class Planned:
    """One pass of a shape by cuDNN, planned when it is made; see `algorithm.Convolution`, of which
    it has the method of its direction. x and y are `ALIGNED` and have these `steps`. Raises
    whatever the frontend does where it has no plan.

    Of the engines that cuDNN's heuristics propose, the first that takes no more scratch memory than
    `most_bytes`.
    """

    def __init__(
        self,
        library: Library,
        shape: ConvShape,
        direction: Direction,
        steps: Steps,
        ops: OnDevice,
        most_bytes: int,
    ) -> None:
        self._library = library
        self._ops = ops
        self._weights = WeightOrder(shape, ops)
        modes = library.module.heur_mode
        holds_lock(f"cuDNN, {direction} of {shape} is planned")
        self._graph = graph_of(library.module, shape, direction, steps, handle=library.handle)
        self._graph.validate()
        self._graph.build_operation_graph()
        self._graph.create_execution_plans([modes.A, modes.FALLBACK])
        self._graph.deselect_numeric_notes(library.left_out)
        self._graph.deselect_workspace_greater_than(most_bytes)
        self._graph.check_support()
        self._graph.build_plans()
        self._workspace = int(self._graph.get_workspace_size())
        self.scratch_bytes = self._workspace + self._weights.scratch_bytes

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, rectify: bool) -> None:
        """See Convolution."""
        self._run(x, self._aligned(self._weights.packed(w)), y)
        self._ops.shifted(y, b, rectify)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        """See Convolution."""
        self._run(dx, self._aligned(self._weights.packed(w)), dy)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        """See Convolution."""
        room = self._weights.room(dw)
        if address(room) % ALIGNED:
            into = room
            room = self._ops.scratch.take("weights", room.shape, room.dtype)
            self._run(x, room, dy)
            self._copy(into, room)
        else:
            self._run(x, room, dy)
            self._weights.unpack(room, dw)

    def _aligned(self, w: Array) -> Array:
        """w, copied where parameters of layers before it have pushed it to an odd address."""
        if address(w) % ALIGNED == 0:
            return w
        copy = self._ops.scratch.take("weights", w.shape, w.dtype)
        self._copy(copy, w)
        return copy

    def _copy(self, into: Array, source: Array) -> None:
        if self._ops.repeats is not None:
            self._ops.repeats.spoil()
        into[...] = source

    def _run(self, x: Array, w: Array, y: Array) -> None:
        # lowering's, if it runs
        workspace = self._ops.scratch.take("windows", (max(1, self._workspace),), np.uint8)
        places = {X: address(x), W: address(w), Y: address(y)}
        self._graph.execute(places, address(workspace), handle=self._library.handle)
        if self._ops.repeats is not None and self._ops.repeats.recording:
            self._ops.repeats.add(self._again(places, address(workspace)))

    def _again(self, places: dict[int, int], workspace: int) -> Call:
        """The same run once more. The frontend looks at its arguments anew in every `execute`,
        which takes it longer than cuDNN takes to start; where what it calls then is known, that is
        called at once."""
        graph = self._graph
        handle = self._library.handle
        try:
            start = graph._lowered_graph._execute_with_raw_ptrs
            backend = handle.backend_handle
            plan = graph._materialize_backend_plan(graph._plan_index).cpp_index
        except AttributeError:
            return partial(graph.execute, places, workspace, handle=handle)
        pointers = np.array([places[uid] for uid in sorted(places)], np.uint64)
        again = partial(
            start,
            pointers.ctypes.data,
            len(places),
            workspace,
            backend,
            -1 if plan is None else plan,
        )
        again.held = pointers  # type: ignore[attr-defined]  # it is read at every call
        return again


def first_line(error: BaseException) -> str:
    """What an error is and says, as part of a line."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])

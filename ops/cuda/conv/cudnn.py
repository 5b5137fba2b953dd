"""cuDNN's convolutions, through NVIDIA's frontend: a graph for each pass, of one operation, or of a
convolution and what follows it.

The only file that imports `cudnn`. Its tensors have the dimensions N, C, H, W whatever lies in
memory. Strides describe the layout: images lie as [N][H][W][C], with `step` numbers from pixel to
pixel, and weights as [K][kh][kw][C/groups]. The graph states everything, since cuDNN would infer
other layouts and other sizes of gradients.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ops.cuda.conv.algorithm import PLAIN, ConvShape, Direction, Epilogue
from ops.cuda.conv.lowered import as_factor
from ops.cuda.conv.weight_layouts import WeightOrder
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import ALIGNED, address
from ops.cuda.repeats import Call, Capture
from ops.errors import BFLOAT16, Array, OpsError, Shape, first_line
from ops.holding import holds_lock

LIBRARY = "libcudnn.so.9"
X = 1  # numbers of tensors in a graph: images, weights, images, or their gradients; and the bias
W = 2
Y = 3
B = 4
# The frontend's versions whose inner functions `Planned._again` knows. A trial compares them with
# `execute`.
KNOWN = ("1.32.0",)
Steps = tuple[int, int]  # numbers from pixel to pixel of x, and of y


class CudnnMissing(OpsError):
    """cuDNN, or a library that it needs, is missing."""


class Library:
    """cuDNN in one thread: its handle, and which kinds of plans may be taken.

    `deterministic` leaves out engines whose results differ from run to run. Factors are rounded in
    tensor cores only if `precision` is not "full". With "bf16" factors in float32 are rounded to
    TF32 too, since cuDNN would otherwise round to float16; images that are stored in bfloat16 are
    multiplied as they are.
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
            self.stream = stream
        except Exception as error:  # noqa: BLE001  # whatever it raises, lowering takes its place
            absent = "" if here else f"; there is no {LIBRARY}: install nvidia-cudnn-cu13"
            raise CudnnMissing(f"cuDNN does not start ({first_line(error)}{absent})") from None
        self.module = cudnn
        frontend = str(getattr(cudnn, "__version__", ""))
        self.versions = {"cuDNN": self.version, "cuDNN's frontend": frontend}
        self.known = frontend in KNOWN
        notes = cudnn.numerical_note
        self.left_out = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION]
        self.left_out += [notes.TENSOR_CORE] if precision == "full" else []
        self.left_out += [notes.NONDETERMINISTIC] if deterministic else []

    def __repr__(self) -> str:
        return f"<cuDNN {self.version}>"

    def in_stream(self, stream: int, call: Call) -> None:
        """Start a plan in another stream."""
        self.module.set_stream(self.handle, stream)
        try:
            call()
        finally:
            self.module.set_stream(self.handle, self.stream)


def _start() -> bool:
    """Make cuDNN load its parts, with the interpreter's lock released. The frontend would hold the
    lock, and a process whose event loop stands still counts as dead (`ops.backends.cuda_driver`).
    Returns False if the library is missing."""
    try:
        # the library that the frontend has found, by the name under which it was loaded
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    handle = ctypes.c_void_p()
    if library.cudnnCreate(ctypes.byref(handle)) == 0:
        library.cudnnDestroy(handle)
    return True


def graph_of(
    cudnn: Any,
    shape: ConvShape,
    direction: Direction,
    steps: Steps,
    epilogue: Epilogue = PLAIN,
    **options: Any,
) -> Any:
    """The graph of one pass of a convolution in float32, whose factors may be bfloat16. Only a
    forward pass has an `epilogue`; `options` are pygraph's."""
    real = cudnn.data_type.FLOAT
    factors = _type(cudnn, shape.factors)
    graph = cudnn.pygraph(
        io_data_type=factors, intermediate_data_type=real, compute_data_type=real, **options
    )
    _, own, *kernel = shape.weight_shape
    tensors = {
        X: (shape.in_shape, steps[0]),
        # cuDNN divides x's channels by these to get the number of groups
        W: ((shape.outputs, own, *kernel), own),
        Y: (shape.out_shape, steps[1]),
    }
    written = {Direction.FORWARD: Y, Direction.DATA: X, Direction.WEIGHTS: W}[direction]
    given = {
        uid: graph.tensor(dim=list(dim), stride=strides(dim, step), data_type=factors, uid=uid)
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
    if epilogue != PLAIN:
        result = _followed(cudnn, graph, result, dim, step, epilogue)
    x, y = shape.stored
    kind = _type(cudnn, {X: x, W: shape.dtype, Y: y}[written])
    result.set_output(True).set_data_type(kind).set_dim(list(dim)).set_stride(
        strides(dim, step)
    ).set_uid(written)
    return graph


def _followed(cudnn: Any, graph: Any, sums: Any, dim: Shape, step: int, epilogue: Epilogue) -> Any:
    """The sums of a convolution with their epilogue. They stay on the chip, in float32."""
    if epilogue.bias:
        sums.set_dim(list(dim)).set_stride(strides(dim, step))
        k = dim[1]
        bias = graph.tensor(
            dim=[1, k, 1, 1], stride=[k, 1, k, k], data_type=cudnn.data_type.FLOAT, uid=B
        )
        sums = graph.bias(input=sums, bias=bias)
    if epilogue.rectify:
        sums.set_dim(list(dim)).set_stride(strides(dim, step))
        sums = graph.relu(input=sums)
    return sums


def _type(cudnn: Any, dtype: Any) -> Any:
    return cudnn.data_type.BFLOAT16 if dtype == BFLOAT16 else cudnn.data_type.FLOAT


def strides(dim: Shape, step: int) -> list[int]:
    """The strides of (N, C, H, W), in numbers, where memory has [N][H][W] pixels `step` numbers
    apart."""
    _, _, high, wide = dim
    return [high * wide * step, 1, wide * step, step]


class Engine(NamedTuple):
    """One of cuDNN's engines: its number, and its settings by their names."""

    number: int
    knobs: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        knobs = " ".join(f"{name}={value}" for name, value in self.knobs)
        return f"engine {self.number}{f' ({knobs})' if knobs else ''}"


def engines(
    library: Library,
    shape: ConvShape,
    direction: Direction,
    steps: Steps,
    epilogue: Epilogue = PLAIN,
) -> list[Engine]:
    """The engines that cuDNN's heuristics propose, the best first. Some of them may not be allowed,
    or take too much memory: `Planned` refuses them. Raises the frontend's errors."""
    modes = library.module.heur_mode
    holds_lock(f"cuDNN, {direction} of {shape} is planned")
    graph = _built(library, shape, direction, steps, epilogue)
    graph.create_execution_plans([modes.A, modes.FALLBACK])
    found = map(graph.get_engine_and_knobs_at_index, range(int(graph.get_execution_plan_count())))
    return [
        Engine(int(number), tuple(sorted((knob.name, int(value)) for knob, value in knobs.items())))
        for number, knobs in found
    ]


def _built(
    library: Library, shape: ConvShape, direction: Direction, steps: Steps, epilogue: Epilogue
) -> Any:
    """The operation graph of a pass. Images in another dtype than the factors' are rounded to a
    copy without gaps."""
    x, y = shape.stored
    steps = (
        steps[0] if direction is Direction.DATA or x == shape.factors else shape.in_shape[1],
        steps[1] if direction is Direction.FORWARD or y == shape.factors else shape.outputs,
    )
    graph = graph_of(library.module, shape, direction, steps, epilogue, handle=library.handle)
    graph.validate()
    graph.build_operation_graph()
    return graph


class Planned:
    """One pass of a shape by one of cuDNN's engines, planned when it is made. Of
    `algorithm.Convolution` only the method of its direction may be called. x and y are `ALIGNED`
    and have these `steps`. The plan has this `epilogue`; one that a pass has but not the plan takes
    a launch of its own.

    The constructor raises the frontend's errors, and OpsError if the engine needs more scratch
    memory than `most_bytes`.
    """

    def __init__(
        self,
        library: Library,
        shape: ConvShape,
        direction: Direction,
        steps: Steps,
        ops: OnDevice,
        engine: Engine,
        epilogue: Epilogue,
        most_bytes: int,
    ) -> None:
        self._library = library
        self._ops = ops
        self._weights = WeightOrder(shape, ops)
        self._direction = direction
        self._factors = shape.factors
        self.direct = library.known  # whether later runs are started without the frontend's checks
        self._epilogue = epilogue
        self._graph = _built(library, shape, direction, steps, epilogue)
        kinds = library.module.knob_type
        self._graph.create_execution_plan(
            engine.number, {getattr(kinds, name): value for name, value in engine.knobs}
        )
        self._graph.deselect_numeric_notes(library.left_out)
        self._graph.check_support()
        self._graph.build_plans()
        self._workspace = int(self._graph.get_workspace_size())
        if self._workspace > most_bytes:
            raise OpsError(
                f"{engine} needs {self._workspace} bytes of scratch memory, expected at most "
                f"{most_bytes}"
            )
        self.scratch_bytes = self._workspace + self._weights.scratch_bytes

    def start_with_checks(self) -> None:
        """Have the frontend check the arguments of every run."""
        self.direct = False

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, rectify: bool) -> None:
        if self._epilogue == PLAIN:
            self.run(x, self._weights.packed(w), y)
            self._ops.shifted(y, b, rectify)
        else:
            self.run(x, self._weights.packed(w), y, b if self._epilogue.bias else None)

    def backward_data(self, dy: Array, w: Array, dx: Array) -> None:
        self.run(dx, self._weights.packed(w), dy)

    def backward_weights(self, x: Array, dy: Array, dw: Array) -> None:
        room = self._weights.room(dw)
        if address(room) % ALIGNED:
            into = room
            room = self._ops.scratch.take("weights", room.shape, room.dtype)
            self.run(x, room, dy)
            self._ops.stored_copy(room, into)
        else:
            self.run(x, room, dy)
            self._weights.unpack(room, dw)

    def run(self, x: Array, w: Array, y: Array, b: Array | None = None) -> None:
        """Start the pass between x and y, or their gradients. Weights (K, kh * kw * C/groups), or
        their gradient, are in the order of windows, in the dtype of factors, the gradient in the
        shape's dtype."""
        given = [
            array if self._direction is writes else as_factor(self._ops, array, self._factors)
            for array, writes in ((x, Direction.DATA), (y, Direction.FORWARD))
        ]
        bias = {} if b is None else {B: self._aligned(self._ops.contiguous(b), "bias")}
        self._run({X: given[0], W: self._aligned(w), Y: given[1], **bias})

    def _aligned(self, w: Array, purpose: str = "weights") -> Array:
        """w, or an aligned copy if the parameters of layers before it have moved it to an odd
        address."""
        if address(w) % ALIGNED == 0:
            return w
        copy = self._ops.scratch.take(purpose, w.shape, w.dtype)
        self._ops.stored_copy(w, copy)
        return copy

    def _run(self, arrays: dict[int, Array]) -> None:
        # lowering uses the same block
        workspace = self._ops.scratch.take("windows", (max(1, self._workspace),), np.uint8)
        places = {uid: address(array) for uid, array in arrays.items()}
        self._graph.execute(places, address(workspace), handle=self._library.handle)
        if self._ops.repeats is not None and self._ops.repeats.recording:
            again = self._again(places, address(workspace))
            captured = partial(self._captured, again)
            self._ops.repeats.add(again, captured, *arrays.values(), workspace)

    def _captured(self, again: Call, to: Capture) -> None:
        self._library.in_stream(to.stream, again)

    def _again(self, places: dict[int, int], workspace: int) -> Call:
        """Return a call that repeats this run. The frontend checks its arguments in every
        `execute`, which takes longer than cuDNN takes to start. A `direct` plan calls the function
        that `execute` calls."""
        graph = self._graph
        handle = self._library.handle
        if not self.direct:
            return partial(graph.execute, places, workspace, handle=handle)
        start = graph._lowered_graph._execute_with_raw_ptrs
        backend = handle.backend_handle
        plan = graph._materialize_backend_plan(graph._plan_index).cpp_index
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

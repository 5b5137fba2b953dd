"""The module `cudnn` of the stand-in; the package's docstring describes it and its faults."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from enum import Enum
from typing import Any

import numpy as np

from ops import BFLOAT16, ConvGeometry, get_backend

data_type = Enum("data_type", "FLOAT HALF BFLOAT16")
heur_mode = Enum("heur_mode", "A B FALLBACK")
numerical_note = Enum(
    "numerical_note",
    ("TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC WINOGRAD"),
)
knob_type = Enum("knob_type", "TILE SPLIT")
# the engines that heuristics propose, with their knobs; each mode proposes the same
ENGINES = [(7, {knob_type.TILE: 1}), (9, {})]
made: list[pygraph] = []  # the graphs that were planned


class cudnnGraphNotSupportedError(Exception):
    """Not a RuntimeError, like the real class."""


def how(operation: str, engine: int | None = None) -> str:
    """The fault to simulate in this operation by this engine, or an empty string."""
    words = os.environ.get("FAKE_CUDNN", "").split()
    fits = all(word in (*operation.split("+"), str(engine)) for word in words[1:])
    return words[0] if words and fits else ""


def backend_version_string() -> str:
    return "9.0.0 that is none"


def create_handle() -> object:
    if how("driver") == "no":
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED")
    return object()


def set_stream(handle: object, stream: int) -> None:
    assert isinstance(stream, int)


class Tensor:
    """A tensor of a graph. Every setter returns the tensor."""

    def __init__(
        self, dim: Any = None, stride: Any = None, data_type: Any = None, uid: int = 0
    ) -> None:
        self.dim = dim
        self.stride = stride
        self.type = data_type
        self.uid = uid
        self.output = False

    def set_output(self, output: bool) -> Tensor:
        self.output = output
        return self

    def set_data_type(self, kind: Any) -> Tensor:
        self.type = kind
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        self.dim = dim
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        self.stride = stride
        return self

    def set_uid(self, uid: int) -> Tensor:
        self.uid = uid
        return self

    def at(self, address: int) -> np.ndarray[Any, Any]:
        """The tensor's numbers in memory at `address`."""
        assert address % 16 == 0, "the real cuDNN expects addresses that are multiples of 16"
        reach = (
            sum((size - 1) * stride for size, stride in zip(self.dim, self.stride, strict=True)) + 1
        )
        kind = BFLOAT16 if self.type is data_type.BFLOAT16 else np.dtype(np.float32)
        flat = np.frombuffer((ctypes.c_char * (reach * kind.itemsize)).from_address(address), kind)
        return np.lib.stride_tricks.as_strided(
            flat, self.dim, [kind.itemsize * stride for stride in self.stride]
        )


class pygraph:
    """A graph of one convolution. `operation` is conv_fprop, conv_dgrad or conv_wgrad, with
    "+bias" and "+relu" if these follow."""

    def __init__(self, **options: Any) -> None:
        self.tensors: list[Tensor] = []
        self.left_out: list[Any] = []
        self.engine: int | None = None
        self.b: Tensor | None = None

    def tensor(self, **options: Any) -> Tensor:
        self.tensors.append(Tensor(**options))
        return self.tensors[-1]

    def conv_fprop(self, *, image: Tensor, weight: Tensor, **windows: list[int]) -> Tensor:
        return self._of("conv_fprop", image, weight, Tensor(), windows)

    def conv_dgrad(self, *, loss: Tensor, filter: Tensor, **windows: list[int]) -> Tensor:  # noqa: A002
        return self._of("conv_dgrad", Tensor(), filter, loss, windows)

    def conv_wgrad(self, *, image: Tensor, loss: Tensor, **windows: list[int]) -> Tensor:
        return self._of("conv_wgrad", image, Tensor(), loss, windows)

    def bias(self, *, input: Tensor, bias: Tensor) -> Tensor:  # noqa: A002
        assert input is self.y and self.operation == "conv_fprop"
        self.operation += "+bias"
        self.b = bias
        return input

    def relu(self, *, input: Tensor) -> Tensor:  # noqa: A002
        assert input is self.y and self.operation.startswith("conv_fprop")
        self.operation += "+relu"
        return input

    def _of(
        self, operation: str, x: Tensor, w: Tensor, y: Tensor, windows: dict[str, list[int]]
    ) -> Tensor:
        self.operation = operation
        self.x = x
        self.w = w
        self.y = y
        self.windows = windows
        return next(tensor for tensor in (x, w, y) if tensor.dim is None)

    def validate(self) -> None:
        for tensor in (self.x, self.w, self.y):
            assert (
                len(tensor.dim) == len(tensor.stride) == 4
                and tensor.type in (data_type.FLOAT, data_type.BFLOAT16)
                and tensor.uid
            )
        read = [tensor for tensor in (self.x, self.w, self.y) if not tensor.output]
        assert read[0].type is read[1].type

    def build_operation_graph(self) -> None:
        pass

    def create_execution_plans(self, modes: list[Any]) -> None:
        assert modes == [heur_mode.A, heur_mode.FALLBACK]
        if how(self.operation) == "lacking":
            raise cudnnGraphNotSupportedError(
                "No valid engine configs returned from heuristics\nand more lines"
            )

    def get_execution_plan_count(self) -> int:
        return len(ENGINES)

    def get_engine_and_knobs_at_index(self, index: int) -> tuple[int, dict[Any, int]]:
        return ENGINES[index]

    def create_execution_plan(self, engine_id: int, knobs: dict[Any, int]) -> None:
        if (engine_id, knobs) not in ENGINES:
            raise cudnnGraphNotSupportedError(f"no engine {engine_id} with {knobs}")
        self.engine = engine_id
        made.append(self)

    def deselect_numeric_notes(self, notes: list[Any]) -> None:
        self.left_out = notes

    def check_support(self) -> None:
        if how(self.operation, self.engine) == "unsupported":
            raise cudnnGraphNotSupportedError("CUDNN_STATUS_NOT_SUPPORTED")

    def build_plans(self) -> None:
        """Wait if the fault is "holding". There is nothing to build: the plan is the reference."""
        if how(self.operation, self.engine) == "holding":
            # a call through PyDLL keeps the interpreter's lock
            ctypes.PyDLL(None).usleep(1_500_000)

    def get_workspace_size(self) -> int:
        return 1 << 40 if how(self.operation, self.engine) == "large" else 1000

    def execute(self, places: dict[int, int], workspace: int, handle: object) -> None:
        fault = how(self.operation, self.engine)
        if fault == "failing":
            raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")
        if fault == "slow":
            time.sleep(0.2)
        if "fake_cuda" in sys.modules:  # this computes at once, so queued work comes first
            sys.modules["fake_cuda"].finish()
        # fill the workspace with NaN, since a real plan may write to it
        ctypes.memset(workspace, 0xFF, 1000)
        x, w, y = (tensor.at(places[tensor.uid]) for tensor in (self.x, self.w, self.y))
        pairs = {name: tuple(pair) for name, pair in self.windows.items()}
        groups = x.shape[1] // w.shape[1]
        geometry = ConvGeometry(
            w.shape[2:], pairs["stride"], pairs["padding"], pairs["dilation"], groups
        )
        given = [tensor.astype(np.float32) for tensor in (x, w, y)]
        ops = get_backend("numpy")
        bigger = np.float32(1.01 if fault == "wrong" else 1)
        if fault == "idle":
            return
        if self.operation.startswith("conv_fprop"):
            found = ops.conv_forward(given[0], given[1], None, geometry)
            if self.b is not None:
                found += self.b.at(places[self.b.uid])
            found *= bigger
            if self.operation.endswith("relu"):
                found = np.maximum(found, 0) if fault != "hiding" else np.fmax(found, 0)
            y[...] = found
        elif self.operation == "conv_dgrad":
            x[...] = ops.conv_backward_data(given[2], given[1], geometry, x.shape) * bigger
        else:
            dw, _ = ops.conv_backward_weights(given[0], given[2], geometry, w.shape, bias=False)
            w[...] = dw * bigger

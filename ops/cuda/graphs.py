"""CUDA graphs of recorded work: one call starts all of it.

A recording consists of launches, products and cuDNN's plans, over memory that it holds. They are
started once more in a stream of their own while CUDA captures that stream, so none of them runs.
The graph is then launched in the backend's stream, in the order of its other work. Source: CUDA
Programming Guide, "CUDA Graphs", and the sections "Stream Management" and "Graph Management" of
the CUDA Runtime API.

CuPy's functions of cuBLAS refuse a stream that is captured, so products are called through ctypes,
by a handle with scratch memory of its own. It is as large as cuBLAS's usual one, since cuBLAS
chooses its algorithm by this size, and a replayed step must leave the bits of a plain one. Source:
cuBLAS, "cublasSetWorkspace".
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np

from ops.cuda.repeats import Capture
from ops.errors import OpsError, first_line
from ops.recording import Recording

MIB = 1 << 20
# cuBLAS's usual scratch memory by the architecture's major number; OTHER on older ones
USUAL = {9: 32 * MIB, 10: 32 * MIB, 12: 12 * MIB}
OTHER = 4 * MIB
INT = ctypes.c_int
POINTER = ctypes.c_void_p
# behind the handle: whether each factor is transposed, m, n, k; 1; two factors, each with dtype and
# step; 0 or 1; the result, its dtype and step; the precision; the algorithm
GEMM = (*(INT,) * 5, POINTER, *(POINTER, INT, INT) * 2, POINTER, POINTER, INT, INT, INT, INT)


class CapturedProducts:
    """Products by cuBLAS in a stream that is captured."""

    def __init__(self, cupy: Any) -> None:
        major = cupy.cuda.runtime.runtimeGetVersion() // 1000
        self._library = ctypes.CDLL(f"libcublas.so.{major}")  # which CuPy has loaded
        self._library.cublasGemmEx.argtypes = (POINTER, *GEMM)
        self._handle = POINTER()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        architecture = int(cupy.cuda.Device().compute_capability) // 10
        self._scratch: Any = cupy.empty((USUAL.get(architecture, OTHER),), np.uint8)

    def begin(self, stream: int) -> None:
        """Let products be started in this stream."""
        scratch = self._scratch
        self._call("cublasSetStream_v2", self._handle, POINTER(stream))
        # another stream takes the scratch memory away
        place = POINTER(scratch.data.ptr), ctypes.c_size_t(scratch.nbytes)
        self._call("cublasSetWorkspace_v2", self._handle, *place)

    def __call__(self, *arguments: Any) -> None:
        """Start a product, with the arguments of `cublasGemmEx` behind the handle."""
        self._call("cublasGemmEx", self._handle, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise OpsError(f"{name} fails with status {status}")


class Graphs:
    """The graphs of one backend, launched in the stream that `cupy` calls the current one."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def __repr__(self) -> str:
        return "<graphs>"

    @cached_property
    def _products(self) -> CapturedProducts:
        return CapturedProducts(self._cupy)

    def of(self, recording: Recording) -> Recording:
        """A recording with one call, the launch of the graph. Raises OpsError if there is none."""
        try:
            graph = self._captured(recording)
            stream = self._cupy.cuda.get_current_stream().ptr
            runtime = self._cupy.cuda.runtime
            runtime.graphUpload(graph.graphExec, stream)
        except Exception as error:  # whatever CuPy, ctypes and cuDNN raise
            raise OpsError(f"no graph can be made of it: {first_line(error)}") from error
        # the graph's work uses the memory that the recording holds
        held = recording, graph, self._products
        launch = partial(runtime.graphLaunch, graph.graphExec, stream)
        return Recording([launch], held, "", lambda: recording.moved)

    def _captured(self, recording: Recording) -> Any:
        stream = self._cupy.cuda.Stream(non_blocking=True)
        self._products.begin(stream.ptr)
        capture = Capture(stream.ptr, self._products)
        stream.begin_capture()
        try:
            for start in recording.elsewhere:
                start(capture)
        except BaseException:
            with suppress(Exception):  # CUDA has given the capture up
                stream.end_capture()
            raise
        return stream.end_capture()

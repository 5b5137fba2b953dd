"""The array operations of CNN training, forward and backward, behind one small interface.

interface/  The methods of every backend, one class per family of operations
reference/  Every operation in plain NumPy, one family per file
backends/   The array backends, one per file
cpu/        The fast kernels of the CPU backend
cuda/       The operations of an NVIDIA GPU, one family per file
activation  The activation that an operation computes on its result before it writes it
geometry    The windows of convolution and pooling
errors      The one error of ops and the input checks that raise it
holding     A notice that a call is about to hold the interpreter's lock for seconds
gradcheck   The generic directional gradient check: one line proves a layer's backward pass
recording   Work of a device, or of the kernels of a CPU, that is recorded once and replayed
cache       The user's folder for files that can be made again

`get_backend("numpy")` returns a `Backend`; its methods are the operations. The package knows
nothing of layers, nets, files or messages, and imports no other package of Convoy.
"""

# part of convoy-runtime

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ops.activation import RELU, Activation
from ops.backends import cuda_driver
from ops.backends.cupy_backend import CupyBackend, planned, to_host, where
from ops.backends.emulated_backend import EmulatedBackend
from ops.backends.numpy_backend import NumpyBackend
from ops.errors import BFLOAT16, Array, KernelsMissing, OpsError, Shape, check_choice
from ops.geometry import ConvGeometry, PoolGeometry
from ops.interface.backend import Backend
from ops.interface.pixels import ImageForm
from ops.interface.updates import Parameter
from ops.recording import Recording

__all__ = [
    "BFLOAT16",
    "RELU",
    "Activation",
    "Array",
    "Backend",
    "ConvGeometry",
    "ImageForm",
    "KernelsMissing",
    "OpsError",
    "Parameter",
    "PoolGeometry",
    "Recording",
    "Shape",
    "check_environment",
    "get_backend",
    "lacking",
    "preload",
    "to_host",
    "where",
]


def _cpu(**options: Any) -> Backend:
    try:
        from ops.backends.cpu_backend import CpuBackend
        from ops.cpu.codegen.kernel import compiled_before

        # so that a missing compiler shows now, not in the middle of a run
        if not compiled_before():
            import ops.cpu.codegen.loops  # noqa: F401  # brings the compiler, 0.4 s
    except ImportError as error:
        raise KernelsMissing(f"backend 'cpu': numba cannot be imported here ({error})") from None
    return CpuBackend(**options)


def preload() -> None:
    """Import the CPU's kernels, and their compiler if no kernel is compiled yet, so that forked
    processes need not do it. Does nothing if they are not installed. Starts no thread. No other
    thread may import meanwhile."""
    try:
        from ops.backends import cpu_backend  # noqa: F401
        from ops.cpu.codegen.kernel import compiled_before

        if compiled_before():
            return
        # numba looks for its BLAS by importing 160 modules, which no kernel needs: 0.2 s
        with _unseen("scipy"):
            from ops.cpu.codegen import loops  # noqa: I001  # it tells numba the machine, so it comes first
            from numba.np import arraymath
    except ImportError:
        return
    arraymath._HAVE_BLAS = find_spec("scipy") is not None  # for kernels of other programs
    loops.prepare()


@contextmanager
def _unseen(package: str) -> Iterator[None]:
    """Hide a package from imports, as if it were not installed, unless it was imported before."""
    hidden = sys.modules.setdefault(package, None) is None  # type: ignore[arg-type]  # None: Python takes it for missing
    try:
        yield
    finally:
        if hidden:
            del sys.modules[package]


def check_environment() -> None:
    """Check the environment variables that the CPU's kernels read. Raises OpsError for a bad
    value."""
    from ops.cpu.codegen.width import allowed_bits

    allowed_bits()


def lacking(name: str, precision: str = "") -> str | None:
    """Return what this machine lacks for the backend `name` in a precision, as far as it can be
    seen without starting the backend. None if nothing is missing."""
    if name == "cpu" and precision == "bf16":
        try:
            from ops.cpu.gemm.bfloat16_choice import bfloat16_missing
        except ImportError as error:
            return f"there are no compiled kernels ({error})"
        return bfloat16_missing() or None
    return cuda_driver.lacking() if name == "cupy" else None


_BACKENDS: dict[str, tuple[Callable[..., Backend], tuple[str, ...]]] = {
    "numpy": (NumpyBackend, ("b_p",)),
    "cpu": (_cpu, ("b_p", "threads", "precision")),
    "emulated": (EmulatedBackend, ()),
    "cupy plan": (planned, ("b_p", "precision")),  # shapes and memory of "cupy", without a device
    "cupy": (CupyBackend, ("b_p", "device", "precision", "cudnn")),  # imports cupy when it is made
}


def get_backend(name: str = "numpy", **options: Any) -> Backend:
    """Return the backend of that name. Raises OpsError for an unknown name or option; the message
    lists those that exist."""
    check_choice("backend", name, _BACKENDS)
    make, known = _BACKENDS[name]
    for option in options:
        check_choice(f"option of backend {name!r}", option, known)
    return make(**options)

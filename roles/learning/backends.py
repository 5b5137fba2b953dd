"""The choice of a role's array backend: a device's, or the CPU's with the threads of this
process."""

from __future__ import annotations

import functools
import logging
import os

import ops
from runtime.errors import LaunchError
from runtime.machine.usable_cores import usable

GPU_PRECISIONS = ("tf32", "bf16")  # of products of float32 numbers
BFLOAT16 = "bf16"  # also a precision of CPUs that multiply fast in it
THREADS_VARIABLE = "CONVOY_THREADS"  # set by runtime's launcher
FREE_VARIABLE = "CONVOY_FREE_CORES"  # set by runtime's launcher
MOST_READERS = 16  # threads that read data, each with a process that decodes


def ops_of(
    device: str, kernels: str, precision: str, *, b_p: int | None, threads: int | None, cudnn: str
) -> ops.Backend:
    """The backend of "cpu", of "cuda:N", or of "cuda", which is for plans only. Other arguments are
    as in `Job`. Raises LaunchError if the device cannot be used here."""
    if device == "cpu":
        return cpu_ops(kernels, b_p=b_p, precision=_on_cpu(precision), threads=threads)
    precision = precision if precision in (*GPU_PRECISIONS, "fast") else "full"
    if device == "cuda":
        return ops.get_backend("cupy plan", b_p=b_p, precision=precision)
    number = int(device.removeprefix("cuda:"))
    try:
        return ops.get_backend("cupy", b_p=b_p, device=number, precision=precision, cudnn=cudnn)
    except ops.OpsError as error:
        raise LaunchError(f"{device}: {error}") from None


def gpu_ops(device: str) -> tuple[ops.Backend, ...]:
    """The backend of an actor that adds up on "cuda:N", if `device` names one. `ops.where` then
    finds it. Raises LaunchError if the device cannot be used here."""
    if not device:
        return ()
    return (ops_of(device, "", "full", b_p=None, threads=None, cudnn="off"),)


def _on_cpu(precision: str) -> str:
    """The precision of this machine's CPU in a run with this precision. "fast" replaces a precision
    that the CPU lacks, since it is more exact."""
    if precision == BFLOAT16 and (why := ops.lacking("cpu", BFLOAT16)):
        _tell_once(f"the CPU multiplies in float32, not in bfloat16: {why}")
        return "fast"
    return "fast" if precision in GPU_PRECISIONS and precision != BFLOAT16 else precision


@functools.cache
def _tell_once(text: str) -> None:
    """Log a warning, once in this process."""
    logging.getLogger("roles").warning("%s", text)


def cpu_ops(
    kernels: str, *, b_p: int | None = None, precision: str = "fast", threads: int | None = None
) -> ops.Backend:
    """The CPU's array backend; plain NumPy where there are no compiled kernels. `threads`: by
    default the team's."""
    if kernels == "emulated":
        return ops.get_backend("emulated")
    if kernels == "compiled":
        try:
            return ops.get_backend(
                "cpu", b_p=b_p, threads=threads or team_size(), precision=precision
            )
        except ops.KernelsMissing as missing:
            logging.getLogger("roles").warning(
                ("%s; computing with plain NumPy, several times slower"), missing
            )
    return ops.get_backend("numpy", b_p=b_p)


def team_size() -> int:
    """The number of threads for the kernels of this process: as its launcher set it, else one per
    core."""
    return int(os.environ.get(THREADS_VARIABLE, 0)) or len(usable())


def reader_threads(*, on_gpu: bool = False) -> int:
    """The number of threads that read data, and of processes that decode for them: one for each
    core that the threads of the kernels leave free, and at least one. If a GPU computes, one thread
    starts its kernels, and the cores of the others are free too."""
    said = os.environ.get(FREE_VARIABLE, "")
    free = int(said) if said.isdecimal() else len(usable()) - team_size()
    if on_gpu:
        free += team_size() - 1
    return max(1, min(free, MOST_READERS))

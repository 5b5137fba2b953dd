"""The function that gives memory to the arrays of a device, and its error for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OutOfDeviceMemory(MemoryError):
    """A device has no room for an array. The message names the remedies."""


class Allocate:
    """Memory by another function, of CuPy or of a user. `__call__` raises OutOfDeviceMemory."""

    def __init__(self, cupy: Any, allocate: Callable[[int], Any]) -> None:
        self._cupy = cupy
        self._allocate = allocate

    def __repr__(self) -> str:
        return f"<allocate by {self._allocate!r}>"

    def __call__(self, size: int) -> Any:
        """Return memory of `size` bytes."""
        try:
            return self._allocate(size)
        except self._cupy.cuda.memory.OutOfMemoryError:
            device = self._cupy.cuda.Device().id
        held = self._cupy.get_default_memory_pool().total_bytes()
        raise OutOfDeviceMemory(
            f"cuda:{device} has no room for {size} bytes more; this process has {held} bytes of "
            "it, and nvidia-smi shows those of others: take a smaller train.batch, "
            'train.precision = "bf16" or more GPUs; `plan` counts the memory of each actor'
        )


def report_full_memory(cupy: Any) -> None:
    """Let arrays take their memory as before, with OutOfDeviceMemory if there is none."""
    allocate = cupy.cuda.get_allocator()
    if not isinstance(allocate, Allocate):
        cupy.cuda.set_allocator(Allocate(cupy, allocate))

"""The pool that arrays of a device come from, and its error for people."""

from __future__ import annotations

from typing import Any


class OutOfDeviceMemory(MemoryError):
    """A device has no room for an array. The message names the remedies."""


def use_pool(cupy: Any) -> None:
    """Let CuPy take memory from its default pool, which raises OutOfDeviceMemory."""
    pool = cupy.get_default_memory_pool()

    def allocate(size: int) -> Any:
        try:
            return pool.malloc(size)
        except cupy.cuda.memory.OutOfMemoryError:
            device = cupy.cuda.Device().id
        raise OutOfDeviceMemory(
            f"cuda:{device} has no room for {size} bytes more; this process has "
            f"{pool.total_bytes()} bytes of it, and nvidia-smi shows those of others: take a "
            'smaller train.batch, train.precision = "bf16" or more GPUs; `plan` counts the memory '
            "of each actor"
        )

    cupy.cuda.set_allocator(allocate)

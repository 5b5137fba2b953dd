"""Copies of a device's arrays in memory of the host that other processes read in place.

A copy for another actor is made on a stream of its own, next to the kernels of later layers, as in
Algorithm 6 of the paper on accumulation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ops.cuda.copies.page_locks import PageLocks
from ops.cuda.image_layout import address
from ops.errors import Array


class HostCopies:
    """Copies from one device. `memory` returns blocks of the host's memory; `locks` are those of
    the range that they come from, None if the range is not known."""

    def __init__(
        self,
        cupy: Any,
        device: int,
        memory: Callable[[int], Array],
        locks: PageLocks | None = None,
    ) -> None:
        self._cupy = cupy
        self._device = device
        self._memory = memory
        self._locks = locks

    def __repr__(self) -> str:
        return f"<copies from cuda:{self._device}, {self._locks!r}>"

    @cached_property
    def _stream(self) -> Any:
        return self._cupy.cuda.Stream(non_blocking=True)

    def copy(self, x: Array, ready: Any) -> Array:
        """Copy x once the event `ready` has passed, and wait for the copy. Any thread may call
        this; it waits without the interpreter's lock."""
        with self._cupy.cuda.Device(self._device):
            self._stream.wait_event(ready)
            found = self.start(x, self._stream)
            done = self._cupy.cuda.Event(block=True, disable_timing=True)
            done.record(self._stream)
            done.synchronize()
        return found

    def start(self, x: Array, stream: Any) -> Array:
        """Start the copy of x on a stream. Return the array that is complete once the stream has
        done this work. It lies in memory as x does, if x has no gaps. Keep x until then."""
        axes = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
        dense = x.transpose(axes)
        if not dense.flags.c_contiguous:
            with stream:
                dense = self._cupy.ascontiguousarray(dense)
        host = self._memory(x.nbytes)
        source = address(dense)
        target = host.ctypes.data
        pieces = [(target, x.nbytes)]
        if self._locks is not None:
            pieces = self._locks.pieces(target, x.nbytes)
        runtime = self._cupy.cuda.runtime
        for place, size in pieces:
            runtime.memcpyAsync(
                place, source + place - target, size, runtime.memcpyDeviceToHost, stream.ptr
            )
        found: Array = host.view(x.dtype).reshape(dense.shape)
        return found.transpose(np.argsort(axes)) if x.ndim else found

"""Copies of images to a device on a stream of their own: the next batch travels while kernels
compute the one before.

The thread that reads ahead starts a copy, and the copy waits for no kernel. The thread that
computes takes the images; only the kernel that takes them waits for the copy. The memory between
the two is used again when that kernel is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ops.errors import Array

FEW = 2  # uploads that are kept without asking whether the device has read them


@dataclass(eq=False)
class Upload:
    """A copy on its way: the array on the device, and the event of the copy's end; None once the
    copy has ended and been read."""

    array: Array
    done: Any


class Uploads:
    """Uploads to one device."""

    def __init__(self, cupy: Any, device: int) -> None:
        self._cupy = cupy
        self._device = device
        # uploads and their sources, each with an event that the device may not have passed
        self._taken: deque[tuple[Any, Upload, Array]] = deque()
        self._events: list[Any] = []  # that mark nothing at present

    def __repr__(self) -> str:
        return f"<uploads to cuda:{self._device}>"

    @cached_property
    def _stream(self) -> Any:
        return self._cupy.cuda.Stream(non_blocking=True)

    def start(self, host: Array) -> Upload | None:
        """Start the copy of an array in page-locked memory, in C order. Returns None if the device
        has no memory for it. One thread may call this next to the thread that calls `taken`."""
        with self._cupy.cuda.Device(self._device), self._stream:
            try:
                array = self._cupy.empty(host.shape, host.dtype)
            except self._cupy.cuda.memory.OutOfMemoryError:
                return None
            array.data.copy_from_host_async(host.ctypes.data, host.nbytes)
            return Upload(array, self._marked())

    @contextmanager
    def taken(self, upload: Upload, host: Array) -> Iterator[Array]:
        """Give the upload of `host` on the device. Work of this thread's stream in the `with` block
        waits for the copy, and reads the array; later work must not."""
        if upload.done is not None:
            self._cupy.cuda.get_current_stream().wait_event(upload.done)
        yield upload.array
        while len(self._taken) > FEW and self._taken[0][0].done:
            event, read, _ = self._taken.popleft()
            self._events.append(event)
            if read.done is not None:  # an array may be fed again, but its event is free once
                self._events.append(read.done)
                read.done = None
        self._taken.append((self._marked(), upload, host))

    def _marked(self) -> Any:
        """Return an event at the end of the current stream's work."""
        try:
            event = self._events.pop()  # the thread that reads ahead and the other both take some
        except IndexError:
            event = self._cupy.cuda.Event(disable_timing=True)
        event.record()
        return event

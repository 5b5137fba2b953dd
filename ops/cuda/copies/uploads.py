"""Copies of images to a device on a stream of their own: the next batches travel while kernels
compute the one before.

The thread that reads ahead starts a copy into a room, which is memory of the device. The thread
that computes takes the images; only the kernel that reads them waits for the copy. A room is used
again at once: the next copy to it waits on the device until that kernel is done. No thread asks.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ops.errors import Array

ROOMS = 3  # one for the batch that is being taken, two for those that are read ahead


class _Room:
    """Memory of the device for one upload. `copied`: the event at the end of the last copy to it.
    `read`: the event behind the last work that reads it. `source`: the page-locked memory of the
    last copy."""

    def __init__(self, event: Any) -> None:
        self.block: Any = None
        self.copied = event(disable_timing=True)
        self.read = event(disable_timing=True)
        self.source: object = None


@dataclass(eq=False)
class Upload:
    """A copy on its way: the array on the device, and the event at the copy's end. `leave` gives
    its room back. It is called when the array has been taken, or when the upload is dropped."""

    array: Array
    room: _Room
    leave: Any = field(init=False)

    @property
    def waits(self) -> bool:
        """Whether the array has not been taken yet. It can be taken once."""
        return bool(self.leave.alive)


class Uploads:
    """Uploads to one device, at most ROOMS at a time. Any thread may start one."""

    def __init__(self, cupy: Any, device: int) -> None:
        self._cupy = cupy
        self._device = device
        self._lock = threading.Lock()
        self._unused = ROOMS  # rooms that were never used
        self._free: deque[_Room] = deque()

    def __repr__(self) -> str:
        return f"<uploads to cuda:{self._device}, {len(self._free) + self._unused} rooms free>"

    @cached_property
    def _stream(self) -> Any:
        return self._cupy.cuda.Stream(non_blocking=True)

    def start(self, host: Array) -> Upload | None:
        """Start the copy of an array in C order, a view of page-locked memory. Returns None if all
        rooms are taken, or if the device has no memory for one."""
        with self._cupy.cuda.Device(self._device), self._lock, self._stream:
            room = self._room()
            if room is None:
                return None
            self._stream.wait_event(room.read)
            try:
                if room.block is None or room.block.nbytes < host.nbytes:
                    room.block = None  # its memory may be used for the larger one
                    room.block = self._cupy.empty((host.nbytes,), "u1")
            except MemoryError:
                self._free.append(room)
                return None
            if not room.copied.done:  # the last copy, whose source is about to be forgotten
                room.copied.synchronize()
            room.block.data.copy_from_host_async(host.ctypes.data, host.nbytes)
            room.copied.record()
            room.source = host.base
            array = room.block[: host.nbytes].view(host.dtype).reshape(host.shape)
        upload = Upload(array, room)
        upload.leave = weakref.finalize(upload, self._free.append, room)
        upload.leave.atexit = False
        return upload

    def _room(self) -> _Room | None:
        """Return the room of the oldest upload that was read, None if all rooms are taken."""
        if self._unused:
            self._unused -= 1
            return _Room(self._cupy.cuda.Event)
        return self._free.popleft() if self._free else None

    @contextmanager
    def taken(self, upload: Upload) -> Iterator[Array]:
        """Take an upload that `waits`. Work of this thread's stream in the `with` block waits for
        the copy, and reads the array; later work must not."""
        self._cupy.cuda.get_current_stream().wait_event(upload.room.copied)
        yield upload.array
        upload.room.read.record()
        upload.leave()

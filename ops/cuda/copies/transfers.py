"""Copies between the host and a device in the order of its work, which nothing waits for until
their numbers are needed."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ops.cuda.copies.uploads import Upload
from ops.cuda.image_layout import address
from ops.errors import Array, Shape

NO_MEMORY = 2  # cudaErrorMemoryAllocation
FEW = 2  # copies to the device whose memory is kept without asking whether they have ended
MANY = 64  # other copies whose memory is kept without asking
_log = logging.getLogger("ops.cupy")


class Pinned(np.ndarray[Any, Any]):
    """An array in page-locked memory, which a device reads by itself. `upload`: the copy to the
    device that has been started, if there is one."""

    upload: Upload | None = None


def upload_of(host: Any, dtype: Any) -> Upload | None:
    """Return the upload of host data of that dtype, if there is one that was not taken yet."""
    if not isinstance(host, Pinned) or host.dtype != dtype or host.upload is None:
        return None
    return host.upload if host.upload.waits else None


def rounded(size: int) -> int:
    """Round up the bytes of a request, by at most a quarter. CuPy keeps freed memory for requests
    of the same size, so batches of many sizes share a few blocks."""
    step = max(512, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


class Room(NamedTuple):
    """Memory of the host for some arrays of a device, one behind the other. `event` marks the
    copies, `places` are the addresses of the `copies` in the memory."""

    memory: Array
    event: Any
    places: list[int]
    copies: list[Array]


class Transfers:
    """The copies of one device in one stream, given by CUDA's handle. Used in the thread that
    computes, apart from `pinned`."""

    def __init__(self, cupy: Any, device: int, stream: int) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._device = device
        self._stream = stream
        self._told = False  # whether the lack of page-locked memory has been reported
        self._events: list[Any] = []  # that mark nothing at present
        # events behind copies to the device, with the memory that these read
        self._sent: deque[tuple[Any, Array]] = deque()
        # the same for other copies, whose events belong to others
        self._under_way: deque[tuple[Any, Array]] = deque()
        self._room = cupy.empty((0,), np.uint8)  # on the device: images in the host's order
        # by the bytes and dtypes of arrays: rooms whose sums were read
        self._read: dict[tuple[tuple[int, Any], ...], list[Room]] = {}

    def __repr__(self) -> str:
        return f"<transfers of cuda:{self._device}, {len(self._sent)} to the device>"

    def pinned(self, shape: Shape, dtype: Any) -> Pinned | None:
        """Return an array in page-locked memory, with undefined contents. None if no more can be
        had, which is reported once. Any thread may call this."""
        size = math.prod(shape) * dtype.itemsize
        try:
            # the thread that reads ahead has not chosen a device
            with self._cupy.cuda.Device(self._device):
                block = self._cupy.cuda.alloc_pinned_memory(rounded(size))
        except self._runtime.CUDARuntimeError as error:
            if error.status != NO_MEMORY:
                raise
            if not self._told:
                _log.warning(
                    ("no page-locked memory for %d bytes: the host waits for such copies"), size
                )
            self._told = True
            return None
        return np.frombuffer(block, dtype, math.prod(shape)).reshape(shape).view(Pinned)

    def on_device(self, host: Array) -> Array:
        """A new array with the numbers of a page-locked one, in the order of its axes."""
        given: Array = self._cupy.empty(host.shape, host.dtype)
        self._send(given, host)
        return given

    def refill(self, into: Array, host: Array) -> None:
        """Overwrite an array of the device by a page-locked one of its shape and dtype."""
        if into.flags.c_contiguous:
            self._send(into, host)
            return
        if self._room.size < host.nbytes:
            self._room = self._cupy.empty((host.nbytes,), np.uint8)
        room = self._room[: host.nbytes].view(host.dtype).reshape(host.shape)
        self._send(room, host)
        into[...] = room

    def _send(self, into: Array, host: Array) -> None:
        """Start a copy, and keep the host's memory until the device has read it."""
        while len(self._sent) > FEW and self._passed(self._sent[0][0]):
            self._events.append(self._sent.popleft()[0])
        self.copy_to_device(address(into), _start(host), host.nbytes)
        event = self._events.pop() if self._events else self.event()
        self.mark(event)
        self._sent.append((event, host))

    def copy_to_device(self, into: int, host: int, size: int) -> None:
        """Start a copy of `size` bytes between these addresses."""
        kind = self._runtime.memcpyHostToDevice
        self._runtime.memcpyAsync(into, host, size, kind, self._stream)

    def keep(self, memory: Array, event: Any) -> None:
        """Keep page-locked memory until the event behind its copy has passed, even if no one else
        does: the next owner of the block would write to it, or read it, during the copy."""
        self._under_way.append((event, memory))
        # the copies end in their order, so one question in many steps is enough
        if len(self._under_way) >= MANY and self._passed(self._under_way[MANY // 2][0]):
            for _ in range(MANY // 2):
                self._under_way.popleft()

    def event(self) -> Any:
        """A new event."""
        return self._cupy.cuda.Event(disable_timing=True)

    def mark(self, event: Any) -> None:
        """Let an event mark the work of the stream so far."""
        self._runtime.eventRecord(event.ptr, self._stream)

    def wait(self, event: Any) -> None:
        """Wait until the work that the event marks is done."""
        if not self._passed(event):
            self._runtime.eventSynchronize(event.ptr)

    def _passed(self, event: Any) -> bool:
        """Whether the work that the event marks is done. False after an error of the device, which
        the next call raises."""
        return bool(self._runtime.eventQuery(event.ptr) == 0)

    def copy_to_host(self, place: int, x: Array) -> None:
        """Start a copy of all bytes of a contiguous array to an address of the host."""
        kind = self._runtime.memcpyDeviceToHost
        self._runtime.memcpyAsync(place, address(x), x.nbytes, kind, self._stream)

    def sums_reader(self, arrays: Sequence[Array]) -> Callable[[], Callable[[], list[float]]]:
        """Return a function that starts a copy of each array to the host whenever it is called. It
        returns a function that waits for all, and returns the sum of each."""
        free = self._read.setdefault(tuple((x.nbytes, x.dtype) for x in arrays), [])

        def begin() -> Callable[[], list[float]]:
            room = free.pop() if free else self._room_for(arrays)
            sent = [x if x.flags.c_contiguous else self._cupy.ascontiguousarray(x) for x in arrays]
            for place, x in zip(room.places, sent, strict=True):
                self.copy_to_host(place, x)
            self.mark(room.event)
            self.keep(room.memory, room.event)
            sums: list[float] = []

            def found() -> list[float]:
                if not sums:
                    self.wait(room.event)
                    sums.extend(float(copy.sum()) for copy in room.copies)
                    free.append(room)
                return sums

            found.held = sent  # type: ignore[attr-defined]  # the copies read them
            return found

        return begin

    def _room_for(self, arrays: Sequence[Array]) -> Room:
        ends = list(accumulate((x.nbytes for x in arrays), initial=0))
        memory = self.room(ends[-1])
        places = [_start(memory) + at for at in ends[:-1]]
        parts = [memory[at:end] for at, end in pairwise(ends)]
        copies = [part.view(x.dtype) for part, x in zip(parts, arrays, strict=True)]
        return Room(memory, self.event(), places, copies)

    def room(self, size: int) -> Array:
        """New host memory of `size` bytes: page-locked, if it can be had."""
        found = self.pinned((size,), np.dtype(np.uint8))
        return np.empty(size, np.uint8) if found is None else found.view(np.ndarray)


class Sender:
    """Sends numbers to one array of the device, `into`, again and again.

    The numbers are written to `rooms`: two arrays of bytes in page-locked memory, which take turns.
    A room is given out again only when the device has read it.
    """

    def __init__(self, transfers: Transfers, into: Array) -> None:
        self._transfers = transfers
        self._into = into
        self.rooms = [transfers.room(into.nbytes) for _ in range(2)]
        self._events = [transfers.event() for _ in self.rooms]
        self._copies = [(address(into), _start(room), room.nbytes) for room in self.rooms]
        self._turn = 0  # of the rooms

    def __repr__(self) -> str:
        return f"<sender of {self._into.nbytes} bytes>"

    def room(self) -> int:
        """The number of the room to write to."""
        self._transfers.wait(self._events[self._turn])
        return self._turn

    def send(self) -> None:
        """Start the copy from that room, in the order of the device's work."""
        self._transfers.copy_to_device(*self._copies[self._turn])
        self._transfers.mark(self._events[self._turn])
        self._transfers.keep(self.rooms[self._turn], self._events[self._turn])
        self._turn = 1 - self._turn


def _start(host: Array) -> int:
    """The address of an array of the host."""
    return int(host.__array_interface__["data"][0])

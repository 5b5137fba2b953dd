"""An array of a device for other actors: by reference, in memory that other processes open, or as
one copy on the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ops.cuda.image_layout import address
from ops.errors import Array, Shape


class DeviceArray:
    """`array`, which lies on a device and is complete once the event `ready` has passed there.
    Neither its maker nor its readers write to it. `copy(array, ready)` returns it on the host.
    `place`: the offset in memory that other processes on the device open, and the number of the
    event there. None for an array outside this memory."""

    def __init__(
        self,
        array: Any,
        ready: Any,
        copy: Callable[[Any, Any], Array],
        place: tuple[int, int] | None = None,
    ) -> None:
        self.array = array
        self.place = place
        self._ready = ready
        self._copy = copy
        self._lock = threading.Lock()
        self._host: Array | None = None

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on cuda:{int(self.device)}"

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: slice) -> DeviceArray:
        part = self.array[rows]
        place = self.place
        if place is not None:
            place = place[0] + address(part) - address(self.array), place[1]
        return DeviceArray(part, self._ready, self._copy, place)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.on_host(), dtype, copy=copy)

    @property
    def device(self) -> Any:
        """The device; int() of it is its number."""
        return self.array.device

    @property
    def shape(self) -> Shape:
        """The length of each axis."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.array.ndim)

    @property
    def nbytes(self) -> int:
        """The bytes of all numbers."""
        return int(self.array.nbytes)

    def on_host(self) -> Array:
        """The array on the host. The first call copies it and waits for the copy. Any thread may
        call this."""
        with self._lock:
            if self._host is None:
                self._host = self._copy(self.array, self._ready)
            return self._host

"""An array of a device for other actors: by reference, or as one copy on the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ops.errors import Array, Shape


class DeviceArray:
    """`array`, which lies on a device and is complete once the event `ready` has passed there.
    Neither its maker nor its readers write to it. `copy(array, ready)` returns it on the host."""

    def __init__(self, array: Any, ready: Any, copy: Callable[[Any, Any], Array]) -> None:
        self.array = array
        self._ready = ready
        self._copy = copy
        self._lock = threading.Lock()
        self._host: Array | None = None

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} on cuda:{int(self.device)}"

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: slice) -> DeviceArray:
        return DeviceArray(self.array[rows], self._ready, self._copy)

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

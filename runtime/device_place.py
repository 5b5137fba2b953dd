"""The place of an array in the memory of a device that another process shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class DevicePlace(NamedTuple):
    """The place of an array in the sender's memory on a device.

    The array has `size` bytes from its first byte to its last, and begins at byte `offset`. Its
    strides are in bytes. The sender's event number `event` follows the work that writes the array:
    a reader's work must wait for this event.
    """

    offset: int
    size: int
    event: int
    shape: Sequence[int]
    dtype: np.dtype[Any]
    strides: Sequence[int]

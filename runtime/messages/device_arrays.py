"""Arrays of messages that lie on a device.

An actor that shares such an array puts an object into its message that has the array's shape, dtype
and bytes, the device's own `array`, its `place` in memory that processes share on the device, and
`on_host()`, which copies it to the host once. An actor of the same process that reads the device
(`Actor.reads_device`) gets `array`. An actor of another process that reads the device gets an array
at the same place. All others get the copy.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TypeGuard

import numpy as np

from runtime.messages.message import Array, Message

HOST = (np.ndarray, np.generic)


class SharedArray(Protocol):
    """An array on a device as it is put into a message. No actor writes to it."""

    array: Any
    # the offset in memory that processes share on the device, and the number of the event behind
    # the work that writes the array; None for an array outside this memory
    place: tuple[int, int] | None

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of all numbers."""
        ...

    def on_host(self) -> Array:
        """Return the array on the host, copied by the first call."""
        ...


def is_shared(value: object) -> TypeGuard[SharedArray]:
    """Whether a value is an array on a device as it is put into a message."""
    return hasattr(value, "on_host")


def shared_in(message: Message) -> list[SharedArray]:
    """The arrays of the message that lie on a device and are shared."""
    found: list[SharedArray] = []
    for name, several in message.array_fields:
        value = getattr(message, name)
        arrays = value if several else (value,)
        found += [array for array in arrays if not isinstance(array, HOST) and is_shared(array)]
    return found


def copied(message: Message) -> Message:
    """Return the message with its arrays on the host. Waits for the copies; any thread may call
    this."""
    changes: dict[str, Any] = {}
    for name, several in message.array_fields:
        value = getattr(message, name)
        changes[name] = tuple(map(_on_host, value)) if several else _on_host(value)
    return dataclasses.replace(message, **changes)  # type: ignore[type-var]  # every subclass is a dataclass


def _on_host(value: Any) -> Any:
    return value.on_host() if is_shared(value) else value

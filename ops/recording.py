"""Work of a device, or of the kernels of a CPU, that is recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ops.errors import Array


class Recording:
    """The calls of some work, in their order. The arrays that they read and write stay in memory as
    long as the recording.

    `gap`: the name of the first piece of the work that did something that was not recorded, such as
    a copy by another library; "" if there was none. Only a recording without a gap may be replayed.
    `elsewhere`: for each call a function that starts the same work in another stream, which the
    backend describes to it.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], object]],
        held: Sequence[object],
        gap: str,
        moved: Callable[[], bool],
        elsewhere: Sequence[Callable[[Any], object]] = (),
    ) -> None:
        self.calls = tuple(calls)
        self.elsewhere = tuple(elsewhere)
        self.gap = gap
        self._held = held
        self._moved = moved

    def __repr__(self) -> str:
        return f"<recording of {len(self.calls)} calls>"

    @property
    def moved(self) -> bool:
        """Whether scratch memory of the backend has moved since: the calls must then be recorded
        anew."""
        return self._moved()

    def replay(self) -> None:
        """Do all calls. Does not wait for a device."""
        for call in self.calls:
            call()


class Sender(Protocol):
    """The numbers that replays read, sent to the device again and again. They are written to one of
    the `rooms`, which are arrays of bytes."""

    @property
    def rooms(self) -> Sequence[Array]:
        """The host's memory, for several times of sending."""

    def room(self) -> int:
        """The number of the room to write to. Waits until the device has read it."""

    def send(self) -> None:
        """Send the bytes of this room, in the order of the device's work. Does not wait."""

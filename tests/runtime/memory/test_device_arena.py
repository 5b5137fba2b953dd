"""Memory on a device that processes share, with a driver that uses host memory: the blocks, the
allocations, and the answers of a driver that refuses.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from runtime.actors.device_sharing import DeviceOpened, DeviceSharing, OpenDevice
from runtime.device_place import DevicePlace
from runtime.errors import ActorStopped, MessageError
from runtime.memory.arena import Arena, Borrow, Loan
from runtime.memory.device_arena import (
    DEVICE,
    LEAST,
    SPAN,
    UNIT,
    DeviceArena,
    DeviceWindow,
    room_for,
)
from runtime.messages import wire
from runtime.messages.message import Array, Envelope, Message, message
from runtime.messages.received_arrays import nothing


@message
class OnDevice(Message):
    blob: Array


class OwnedBytes(np.ndarray[Any, Any]):
    """An array that keeps its owner."""

    owner: object = None


class HostDriver:
    """A driver whose device is this process: a handle is the number of an allocation."""

    name = "host"

    def __init__(self, *, room: int = 1 << 40, opens: bool = True) -> None:
        self.blocks: list[np.ndarray[Any, Any]] = []
        self.room = room
        self.opens = opens
        self.waited: list[int] = []
        self.closed: list[int] = []
        self.queued: list[Callable[[], object]] = []

    def event_handles(self) -> list[bytes]:
        return [b"e0", b"e1"]

    def allocate(self, size: int) -> tuple[int, bytes]:
        if sum(map(len, self.blocks)) + size > self.room:
            raise ValueError("out of memory")
        self.blocks.append(np.zeros(size, np.uint8))
        return self.blocks[-1].ctypes.data, bytes([len(self.blocks) - 1])

    def array(
        self,
        address: int,
        size: int,
        shape: Sequence[int],
        dtype: Any,
        strides: Sequence[int],
        owner: object,
    ) -> Any:
        whole = next(b for b in self.blocks if 0 <= address - b.ctypes.data < len(b))
        place = address - whole.ctypes.data
        found = np.ndarray(shape, dtype, whole, place, strides or None).view(OwnedBytes)
        found.owner = owner
        return found

    def open(self, handle: bytes) -> int:
        if not self.opens:
            raise ValueError("operation not supported")
        return self.blocks[handle[0]].ctypes.data

    def open_event(self, handle: bytes) -> int:
        return int(handle[1:])

    def wait(self, event: int) -> None:
        self.waited.append(event)

    def close(self, address: int) -> None:
        self.closed.append(address)

    def close_event(self, event: int) -> None:
        pass

    def when_done(self, call: Callable[[], object]) -> None:
        self.queued.append(call)


def begun(driver: HostDriver) -> DeviceArena:
    arena = DeviceArena()
    assert arena.begin(driver)
    return arena


def given(arena: DeviceArena, size: int) -> tuple[Any, int]:
    found = arena.empty(size)
    assert found is not None
    return found


def test_a_block_is_free_when_its_views_are_gone_and_every_reader_has_returned_it() -> None:
    arena = begun(HostDriver())
    array, offset = given(arena, 1000)
    arena.lend(offset, "a")
    arena.lend(offset + 40, "b")  # a part of it
    del array
    arena.returned("a", offset)
    assert arena.used == 2 * UNIT
    arena.forget("b")
    assert arena.used == 0
    assert given(arena, 1)[1] == offset


def test_each_allocation_is_as_large_as_all_before_it_or_as_the_array_needs() -> None:
    arena = begun(HostDriver())
    kept = [given(arena, LEAST), given(arena, 1), given(arena, 3 * LEAST)]
    assert arena.sizes == [LEAST, LEAST, 3 * LEAST]
    assert [(offset - DEVICE) // SPAN for _, offset in kept] == [0, 1, 2]


def test_without_room_arrays_get_no_memory_which_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arena = begun(HostDriver(room=LEAST))
    with caplog.at_level(logging.WARNING):
        assert arena.empty(LEAST + 1) is None
        assert arena.empty(LEAST + 1) is None
        assert arena.empty(LEAST) is not None
    (line,) = caplog.messages
    assert line == (
        "arrays for other processes on this device go through host memory: out of memory"
    )


def test_a_reader_returns_an_array_only_after_the_device_has_read_it() -> None:
    driver = HostDriver()
    arena = begun(driver)
    array, offset = given(arena, 32)
    array[:] = 7
    dropped: list[int] = []
    window = DeviceWindow(driver, dropped.append)
    window.open(arena.handles, arena.sizes, arena.events)
    seen = window.array(DevicePlace(offset, 32, 1, (2, 4), np.dtype(np.float32), (16, 4)))
    assert driver.waited == [1]
    assert (seen.view(np.uint8) == 7).all()
    part = seen[1:]
    del seen
    gc.collect()
    assert driver.queued == []
    del part
    gc.collect()
    assert dropped == []
    driver.queued[0]()
    assert dropped == [offset]
    del window
    gc.collect()
    assert driver.closed == [driver.blocks[0].ctypes.data]


@pytest.mark.parametrize(
    ("offset", "size", "event"),
    [(DEVICE + SPAN, 4, 0), (DEVICE, LEAST + 1, 0), (DEVICE + LEAST, 4, 0), (DEVICE, 4, 2)],
)
def test_bytes_and_events_that_are_not_open_here_are_refused(
    offset: int, size: int, event: int
) -> None:
    driver = HostDriver()
    arena = begun(driver)
    window = DeviceWindow(driver, lambda offset: None)
    window.open(arena.handles, arena.sizes, arena.events)
    with pytest.raises(MessageError, match="not open here"):
        window.array(DevicePlace(offset, size, event, (size,), np.dtype(np.uint8), (1,)))


class Shared:
    """An array as a device's backend shares it."""

    def __init__(self, array: Any, place: tuple[int, int]) -> None:
        self.array = array
        self.place = place
        self.shape, self.dtype = array.shape, array.dtype
        self.ndim, self.nbytes = array.ndim, array.nbytes

    def on_host(self) -> Any:
        raise AssertionError("it is read in place")


def test_a_message_names_the_place_the_layout_and_the_event_of_an_array_on_a_device() -> None:
    driver = HostDriver()
    arena = begun(driver)
    block, offset = given(arena, 96)
    images = block.view(np.float32).reshape(2, 3, 4).transpose(0, 2, 1)
    images[...] = np.arange(24).reshape(2, 4, 3)
    host = Arena("test", 1 << 20)
    said: Any = OnDevice(blob=Shared(images, (offset, 1)))  # type: ignore[arg-type]
    loan = Loan(host, 1, arena)
    frames = wire.encode(Envelope(said, 1, "a", 1, "b", "", 0, -1), loan)
    assert len(frames) == 1 and loan.size == 96
    window = DeviceWindow(driver, lambda offset: None)
    window.open(arena.handles, arena.sizes, arena.events)
    found: Any = wire.decode(frames, Borrow(None, window)).message
    np.testing.assert_array_equal(found.blob, images)
    assert found.blob.strides == images.strides and driver.waited == [1]
    for elsewhere in (Borrow(None), nothing):
        with pytest.raises(MessageError):
            wire.decode(frames, elsewhere)
    del block, images, said
    assert arena.used == UNIT
    loan.revoke()
    assert arena.used == 0
    with pytest.raises(ActorStopped):
        Loan(host, 0, arena)(Shared(*_one(arena)))
    host.close()


def _one(arena: DeviceArena) -> tuple[Any, tuple[int, int]]:
    block, offset = given(arena, 4)
    return block, (offset, 0)


class Placed:
    """An array of a message, as far as its place goes."""

    def __init__(self, offset: int) -> None:
        self.place = offset, 0


async def test_a_peer_is_asked_once_for_each_allocation_and_may_refuse(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arena = DeviceArena()
    sharing = DeviceSharing("p", arena, ["far", "other"], lambda process: f"{process}/agent")
    assert sharing.begin(HostDriver()) == arena.empty
    offers: list[tuple[str, int]] = []

    async def ask(helper: str, offer: OpenDevice) -> DeviceOpened:
        offers.append((helper, len(offer.sizes)))
        if helper == "r/agent":
            return DeviceOpened(readers=(), why="process r: operation not supported")
        if helper == "dead/agent":
            raise ActorStopped("gone")
        return DeviceOpened(readers=("far",))

    sharing.ask = ask
    kept = [given(arena, 4)]
    first: Any = [Placed(kept[0][1])]
    assert sharing.reads("cpu", "q", first) is False
    assert sharing.reads("far", "q", first) is None
    await sharing.offer("q")
    assert sharing.reads("far", "q", first) is True
    assert sharing.reads("other", "q", first) is False
    kept.append(given(arena, LEAST))  # in a second allocation
    later: Any = [Placed(kept[1][1])]
    assert sharing.reads("far", "q", later) is None
    await sharing.offer("q")
    assert sharing.reads("far", "q", later) is True
    with caplog.at_level(logging.WARNING):
        await sharing.offer("r")
        await sharing.offer("r")
    assert sharing.reads("far", "r", first) is False
    assert caplog.messages == [
        "arrays for r go through host memory: process r: operation not supported"
    ]
    await sharing.offer("dead")
    assert sharing.reads("far", "dead", first) is None
    assert offers == [
        ("q/agent", 1), ("q/agent", 2), ("r/agent", 2), ("r/agent", 2), ("dead/agent", 2)
    ]  # fmt: skip
    sharing.forget("q")
    assert sharing.reads("far", "q", first) is None


@pytest.mark.parametrize(
    "sizes",
    [(), (1,), (LEAST,), (LEAST, 1), (LEAST // 2,) * 5, (3 * LEAST, 1, LEAST), (1000,) * 50],
)
def test_the_memory_for_arrays_that_all_stay_is_known_before(sizes: tuple[int, ...]) -> None:
    arena = DeviceArena()
    assert arena.begin(HostDriver())
    held = [arena.empty(size) for size in sizes]
    assert None not in held
    assert sum(arena.sizes) == room_for(sizes)

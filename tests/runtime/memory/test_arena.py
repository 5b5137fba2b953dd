"""Shared memory: the readers that hold a block, the time when it becomes free, and the blocks of a
process that has died.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.lib.stride_tricks import sliding_window_view

from runtime.errors import LaunchError, MessageError
from runtime.memory.arena import BLOCK, IN_PLACE_FROM, Arena, Window
from runtime.memory.held_arrays import writable
from runtime.memory.mapping import LARGE_PAGE, Mapping, available
from runtime.transport.shared_arena import SharedMemory

pytestmark = pytest.mark.skipif(not available(), reason="this system has no memory files")
ROOM = 64 * BLOCK


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena("test", ROOM)
    yield made
    made.close()


def test_an_array_has_the_requested_shape_and_dtype_and_starts_a_page(arena: Arena) -> None:
    for shape, dtype in (
        ((3, 4), np.float32),
        ((0,), np.int64),
        ((), np.float64),
        ((5000,), np.uint8),
    ):
        array = arena.empty(shape, dtype)
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.__array_interface__["data"][0] % BLOCK == 0
        array[...] = 7
        assert (array == 7).all()


def test_a_block_is_free_when_the_last_view_of_its_array_is_gone(arena: Arena) -> None:
    array = arena.empty((1000,))
    part = array.reshape(10, 100)[3:5].T
    del array
    assert arena.used == BLOCK
    del part
    assert arena.used == 0


def test_a_reader_sees_what_the_owner_wrote_and_cannot_write(arena: Arena) -> None:
    array = arena.empty((1000,))
    array[...] = np.arange(1000)
    offset = arena.place(array[10:])
    assert offset is not None
    window = Window(arena.address, lambda offset: None)
    seen = window.bytes_at(offset, 40).view(np.float32)
    np.testing.assert_array_equal(seen, np.arange(10, 20))
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    array[10] = 99
    assert seen[0] == 99


def test_a_lent_block_stays_until_every_reader_has_returned_it(arena: Arena) -> None:
    array = arena.empty((1000,))
    offset = arena.place(array)
    assert offset is not None
    for reader in ("p", "p", "q"):
        arena.lend(offset, reader)
    del array
    for reader in ("q", "p"):
        arena.returned(reader, offset)
        arena.returned("q", offset)  # returned once too often, without harm
        assert arena.used == BLOCK
    arena.returned("p", offset)
    assert arena.used == 0


def test_the_blocks_of_a_dead_reader_are_free(arena: Arena) -> None:
    kept = arena.empty((1000,))
    gone = arena.empty((1000,))
    for array in (kept, gone):
        arena.lend(arena.place(array) or 0, "dead")
    arena.lend(arena.place(gone) or 0, "alive")
    offset = arena.place(gone) or 0
    del gone, array
    arena.forget("dead")
    assert arena.used == 2 * BLOCK
    arena.returned("alive", offset)
    assert arena.used == BLOCK


def test_arrays_outside_the_arena_have_no_place(arena: Arena) -> None:
    assert arena.place(np.zeros(10)) is None


def test_an_array_that_runs_backwards_or_shows_bytes_twice_has_no_place(arena: Arena) -> None:
    whole = arena.empty((4, 6))
    for view in (whole[::-1], np.broadcast_to(whole, (2, 4, 6)), sliding_window_view(whole, 3, 1)):
        assert arena.place(view) is None
    for view in (whole.T, whole[1:, ::2], whole[:, 3]):
        assert arena.place(view) is not None


def test_a_full_arena_says_so_and_goes_on(arena: Arena) -> None:
    half = arena.empty((ROOM // 2,), np.uint8)
    with pytest.raises(
        MemoryError, match=(f"arena of {ROOM} bytes has no room for {ROOM // 2 + BLOCK} more")
    ):
        arena.empty((ROOM // 2 + 1,), np.uint8)
    rest = arena.empty((ROOM // 2,), np.uint8)
    assert arena.used == half.nbytes + rest.nbytes == ROOM


@pytest.mark.parametrize(
    ("offset", "size"), [(-1, 8), (0, 0), (0, -8), (ROOM, 1), (ROOM - 4, 8), (2**70, 8), (0, 2**70)]
)
def test_a_window_shows_nothing_outside_the_arena(arena: Arena, offset: int, size: int) -> None:
    with pytest.raises(MessageError):
        Window(arena.address, lambda offset: None).bytes_at(offset, size)


def test_a_window_opens_only_onto_the_arena_of_its_address(arena: Arena, tmp_path: Path) -> None:
    path, _, name = arena.address.partition(" ")
    for wrong in (
        f"{path} {name}x",
        f"/proc/{os.getpid()}/fd/9999 {name}",
        f"/proc/999999999/fd/3 {name}",
    ):
        with pytest.raises(OSError):  # the system decides which error it is
            Window(wrong, lambda offset: None)


class Blocks(RuleBasedStateMachine):
    """Makes, lends, drops and returns arrays in any order, and checks that live arrays do not
    overlap and no byte is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena("model", ROOM)
        self.owned: list[np.ndarray] = []
        self.lent: list[tuple[int, str, int]] = []  # (offset, reader, mark)
        self.window = Window(self.arena.address, lambda offset: None)
        self.mark = 0

    @rule(size=st.integers(1, 20 * BLOCK))
    def make(self, size: int) -> None:
        try:
            array = self.arena.empty((size,), np.uint8)
        except MemoryError:
            return
        self.mark = (self.mark + 1) % 251
        array[...] = self.mark
        self.owned.append(array)

    @precondition(lambda self: self.owned)
    @rule(data=st.data(), reader=st.sampled_from("pqr"))
    def lend(self, data: st.DataObject, reader: str) -> None:
        array = self.owned[data.draw(st.integers(0, len(self.owned) - 1))]
        offset = self.arena.place(array)
        assert offset is not None
        self.arena.lend(offset, reader)
        self.lent.append((offset, reader, int(array[0])))

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.owned.pop(data.draw(st.integers(0, len(self.owned) - 1)))

    @precondition(lambda self: self.lent)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        offset, reader, _ = self.lent.pop(data.draw(st.integers(0, len(self.lent) - 1)))
        self.arena.returned(reader, offset)

    @rule(reader=st.sampled_from("pqr"))
    def die(self, reader: str) -> None:
        self.arena.forget(reader)
        self.lent = [item for item in self.lent if item[1] != reader]

    @invariant()
    def no_array_is_overwritten(self) -> None:
        marks = [int(array[0]) for array in self.owned]
        assert all((array == mark).all() for array, mark in zip(self.owned, marks, strict=True))
        for offset, _, mark in self.lent:
            assert self.window.bytes_at(offset, 1)[0] == mark

    @invariant()
    def only_held_blocks_are_used(self) -> None:
        held = {self.arena.place(array): -(-array.nbytes // BLOCK) * BLOCK for array in self.owned}
        assert self.arena.used >= sum(held.values())
        if not self.lent:
            assert self.arena.used == sum(held.values())

    def teardown(self) -> None:
        self.owned.clear()
        for reader in "pqr":
            self.arena.forget(reader)
        gc.collect()
        assert self.arena.used == 0
        assert self.arena._blocks._gaps._free == [(0, ROOM)]
        self.arena.close()


TestBlocks = Blocks.TestCase
TestBlocks.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)


@pytest.mark.slow
class TestManyBlocks(Blocks.TestCase):
    settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


PEER = """
import sys
from runtime.memory.arena import Arena
arena = Arena("peer")
print(arena.address, flush=True)
sys.stdin.read()
"""


async def test_a_killed_peer_is_noticed_and_its_blocks_are_released(arena: Arena) -> None:
    peer = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert peer.stdout is not None
    assert peer.stdin is not None
    shared = SharedMemory("me", arena, lambda peer: None)
    shared.connect("peer", peer.stdout.readline().strip())
    array = arena.empty((IN_PLACE_FROM,), np.uint8)
    loan = shared.loan("peer")
    assert loan(array) is not None
    assert loan(array[:100]) is None  # too small
    del array
    gc.collect()
    assert arena.used == IN_PLACE_FROM
    peer.send_signal(signal.SIGKILL)
    async with asyncio.timeout(60):
        # the watch runs on this loop
        while shared.borrow("peer", peer.pid).window is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert arena.used == 0
    assert shared.loan("peer")(arena.empty((IN_PLACE_FROM,), np.uint8)) is None
    shared.close()
    peer.wait()
    peer.stdin.close()
    peer.stdout.close()


@pytest_asyncio.fixture
async def lives(arena: Arena) -> AsyncIterator[tuple[SharedMemory, Arena, Arena]]:
    """The memory that `me` shares with `peer`, and the arenas of two lives of the peer."""
    shared = SharedMemory("me", arena, lambda peer: None)
    former = Arena("peer", ROOM)
    later = Arena("peer", ROOM)
    yield shared, former, later
    shared.close()
    former.close()
    later.close()


async def test_an_array_of_a_former_life_is_not_returned_to_the_next(
    lives: tuple[SharedMemory, Arena, Arena],
) -> None:
    shared, former, later = lives
    seen = []
    for life in (former, later):
        shared.connect("peer", life.address)
        window = shared.borrow("peer", os.getpid()).window
        assert window is not None
        seen.append(window.bytes_at(BLOCK, 8))
    del seen[0], window
    await asyncio.sleep(0)
    assert shared.take_due("peer") == []
    del seen[0]
    await asyncio.sleep(0)
    assert shared.take_due("peer") == [BLOCK]


async def test_a_loan_to_a_former_life_ends_without_touching_one_to_the_next(
    arena: Arena, lives: tuple[SharedMemory, Arena, Arena]
) -> None:
    shared, former, later = lives
    array = arena.empty((IN_PLACE_FROM,), np.uint8)
    loans = []
    for life in (former, later):
        shared.connect("peer", life.address)
        loans.append(shared.loan("peer"))
        assert loans[-1](array) is not None
    del array
    loans[0].revoke()
    assert arena.used == IN_PLACE_FROM
    loans[1].revoke()
    assert arena.used == 0


async def test_memory_is_read_in_place_only_for_the_process_whose_memory_is_mapped(
    lives: tuple[SharedMemory, Arena, Arena],
) -> None:
    shared, former, _ = lives
    shared.connect("peer", former.address)
    assert shared.borrow("peer", os.getpid()).window is not None
    assert shared.borrow("peer", os.getpid() + 1).window is None
    assert shared.borrow("stranger", os.getpid()).window is None


async def test_memory_that_cannot_be_mapped_is_an_error_that_says_what_to_do(arena: Arena) -> None:
    shared = SharedMemory("me", arena, lambda peer: None)
    with pytest.raises(
        LaunchError,
        match=(r"'me' cannot map the memory of " r"'peer'.*links.shared_memory = false"),
    ):
        shared.connect("peer", "/proc/999999999/fd/3 /memfd:nothing")


def test_the_memory_lies_far_from_code_so_that_kernels_compiled_later_reach_one_another() -> None:
    arena = Arena("far")  # as large as the machine's memory
    window = Window(arena.address, lambda offset: None)
    lines = Path("/proc/self/maps").read_text().splitlines()
    arena.close()
    ours = [_span(line) for line in lines if "memfd:convoy-far" in line]
    code = [_span(line) for line in lines if line.split()[1].startswith("r-x") and "/" in line]
    assert len(ours) == 2 and code and window.size == arena.size
    assert all(max(low - end, start - high) > 1 << 40 for low, high in ours for start, end in code)


def _span(line: str) -> tuple[int, int]:
    """The first and the last address of a line of /proc/self/maps."""
    low, _, high = line.split()[0].partition("-")
    return int(low, 16), int(high, 16)


def test_a_received_array_can_be_written_to_on_request_of_its_owner(arena: Arena) -> None:
    mine = arena.empty((10,))
    mine[...] = 1
    offset = arena.place(mine)
    assert offset is not None
    dropped: list[int] = []
    window = Window(arena.address, dropped.append)
    received = window.bytes_at(offset, 40).view(np.float32)[2:5]
    assert not received.flags.writeable
    place = writable(received)
    assert place is not None
    place[...] = 7
    assert mine.tolist() == [1, 1, 7, 7, 7, 1, 1, 1, 1, 1] and received.tolist() == [7, 7, 7]
    assert not received.flags.writeable
    own = writable(mine)
    assert own is not None and own.tolist() == mine.tolist()
    assert writable(np.zeros(3)) is None
    del received
    gc.collect()
    assert dropped == [offset]


def test_arrays_lie_in_large_pages_if_the_system_has_them_and_neighbours_keep_their_values() -> (
    None
):
    arena = Arena("large")
    first = arena.empty((1000,), np.uint8)
    first.fill(7)
    second = arena.empty((3 * LARGE_PAGE,), np.uint8)
    assert (first == 7).all()
    found = in_large_pages(arena)
    arena.close()
    if not the_system_can():
        pytest.skip("this system puts shared memory into small pages only")
    assert found >= first.nbytes + second.nbytes


def the_system_can() -> bool:
    """Return whether Linux puts shared memory into large pages on request (from 6.1 on)."""
    file = os.memfd_create("probe")
    os.write(file, bytes(LARGE_PAGE))
    probe = Mapping(file, LARGE_PAGE, writable=True)
    os.close(file)
    collapse = 25  # MADV_COLLAPSE
    return (
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(probe.address), ctypes.c_size_t(LARGE_PAGE), collapse
        )
        == 0
    )


def in_large_pages(arena: Arena) -> int:
    """The bytes of an arena that this process sees in large pages."""
    name = arena.address.partition(" ")[2].partition(" ")[0]
    mappings = Path("/proc/self/smaps").read_text().split("VmFlags:")
    sizes = [re.search(r"ShmemPmdMapped: +(\d+) kB", text) for text in mappings if name in text]
    return sum(int(size[1]) << 10 for size in sizes if size)

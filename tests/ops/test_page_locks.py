"""Page locks: each region is locked once, and a copy never lies across two regions."""

from __future__ import annotations

import logging

import pytest

from ops.cuda.copies.page_locks import REGION, PageLocks

FIRST = 1 << 44
ROOM = 16 * REGION


class Driver:
    """Keeps the regions that it locks. Refuses those from the address `until` on."""

    def __init__(self, until: int = FIRST + ROOM) -> None:
        self.until = until
        self.locked: list[tuple[int, int]] = []

    def lock(self, address: int, size: int) -> str:
        if address >= self.until:
            return "cudaErrorMemoryAllocation: out of memory"
        self.locked.append((address, size))
        return ""


def test_a_region_is_locked_once_and_the_next_is_as_large_as_all_before_it() -> None:
    driver = Driver()
    locks = PageLocks(FIRST, ROOM, driver.lock)
    for offset in (0, 4096, REGION - 4096, REGION, 3 * REGION, 0):
        assert locks.pieces(FIRST + offset, 4096) == [(FIRST + offset, 4096)]
    assert driver.locked == [
        (FIRST, REGION),
        (FIRST + REGION, REGION),
        (FIRST + 2 * REGION, 2 * REGION),
    ]


def test_bytes_across_a_border_are_two_pieces() -> None:
    locks = PageLocks(FIRST, ROOM, Driver().lock)
    locks.pieces(FIRST, 1)
    border = FIRST + REGION
    assert locks.pieces(border - 10, 30) == [(border - 10, 10), (border, 20)]


def test_no_page_behind_the_range_is_locked() -> None:
    driver = Driver()
    locks = PageLocks(FIRST, REGION + 4096, driver.lock)
    locks.pieces(FIRST, 1)
    locks.pieces(FIRST + REGION, 4096)
    assert driver.locked == [(FIRST, REGION), (FIRST + REGION, 4096)]


def test_a_refusal_is_reported_once_and_nothing_more_is_locked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(until=FIRST + REGION)
    locks = PageLocks(FIRST, ROOM, driver.lock)
    with caplog.at_level(logging.WARNING, "ops.cupy"):
        for offset in range(0, 8 * REGION, REGION // 2):
            locks.pieces(FIRST + offset, 4096)
    assert driver.locked == [(FIRST, REGION)]
    (line,) = caplog.messages
    assert "not page-locked: cudaErrorMemoryAllocation: out of memory" in line

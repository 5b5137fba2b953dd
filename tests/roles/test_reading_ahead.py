"""The order in which a worker's coming rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nets.data import Batches, MemorySource, Prefetcher, Transform
from roles.workers.reading_ahead import ReadingAhead, Share


class Noting(Prefetcher):
    """A reader that notes its requests that are granted."""

    def __init__(self) -> None:
        source = MemorySource("numbers", np.zeros((90, 1, 2, 2), np.uint8), np.arange(90), 90)
        super().__init__(Batches(source, Transform(), 10, shuffle=False, seed=0, train=True))
        self.asked: list[int] = []
        self.while_fetched: Callable[[], None] = lambda: None

    def get(self, low: int, high: int) -> tuple[NDArray[Any], ...]:
        rows = super().get(low, high)
        self.while_fetched()
        return rows

    def request(self, low: int, high: int) -> bool:
        granted = super().request(low, high)
        if granted and low not in self.asked:
            self.asked.append(low)
        return granted


@pytest.fixture
def readers() -> Iterator[dict[str, Noting]]:
    found = {"TRAIN": Noting(), "TEST": Noting()}
    yield found
    ReadingAhead(found).close()


def shares(phase: str, *lows: int) -> list[Share]:
    return [(phase, low, low + 5) for low in lows]


def test_the_next_two_shares_are_read_while_one_is_used(readers: dict[str, Noting]) -> None:
    ahead, asked = ReadingAhead(readers), readers["TRAIN"].asked
    ahead.expect(shares("TRAIN", 0, 5, 10, 15))
    assert asked == [0, 5]
    for number, share in enumerate(shares("TRAIN", 0, 5, 10, 15)):
        assert ahead.fetch(share)[1].tolist() == list(range(share[1], share[2]))
        assert asked == [0, 5, 10, 15][: number + 3]
    ahead.expect(shares("TRAIN", 20, 25, 30))
    assert asked == [0, 5, 10, 15, 20, 25]


def test_shares_of_several_phases_are_read_in_the_order_of_their_passes(
    readers: dict[str, Noting],
) -> None:
    ahead = ReadingAhead(readers)
    ahead.expect([*shares("TRAIN", 0), *shares("TEST", 0, 5), *shares("TRAIN", 5)])
    assert (readers["TRAIN"].asked, readers["TEST"].asked) == ([0], [0])
    ahead.fetch(("TRAIN", 0, 5))
    assert (readers["TRAIN"].asked, readers["TEST"].asked) == ([0], [0, 5])
    ahead.fetch(("TEST", 0, 5))
    assert readers["TRAIN"].asked == [0, 5]


def test_a_share_that_was_not_expected_is_read_when_it_is_fetched(
    readers: dict[str, Noting],
) -> None:
    ahead = ReadingAhead(readers)
    ahead.expect(shares("TRAIN", 0, 5))
    assert ahead.fetch(("TRAIN", 60, 62))[1].tolist() == [60, 61]
    assert ahead.fetch(("TRAIN", 0, 5))[1].tolist() == [0, 1, 2, 3, 4]


def test_shares_that_a_worker_passes_over_do_not_stay_in_the_way(
    readers: dict[str, Noting],
) -> None:
    ahead, asked = ReadingAhead(readers), readers["TRAIN"].asked
    ahead.expect(shares("TRAIN", 0, 5, 10, 15, 20))
    ahead.fetch(("TRAIN", 10, 15))
    assert asked == [0, 5, 15, 20]


def test_shares_that_become_known_while_another_is_fetched_are_read_ahead(
    readers: dict[str, Noting],
) -> None:
    ahead, reader = ReadingAhead(readers), readers["TRAIN"]
    lows = range(0, 40, 5)
    ahead.expect(shares("TRAIN", 0))
    for low in lows:
        reader.while_fetched = partial(ahead.expect, shares("TRAIN", low + 5))
        ahead.fetch(("TRAIN", low, low + 5))
        assert reader.asked[-1] == low + 5
        assert repr(reader).startswith("<Prefetcher held=1/2")
    assert reader.asked == [*lows, 40]

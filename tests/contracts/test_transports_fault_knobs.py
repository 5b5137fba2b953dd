"""The injected faults themselves: each has its effect, is counted, repeats with its seed, and
returns the credits of its messages.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import Load, Note

from runtime.errors import ConvoyError
from runtime.messages.message import Envelope, Message
from runtime.simulation.clock import run_virtual
from runtime.transport import Release
from tests.helpers.faults import Faults, Shares

NAMES = ("drop", "duplicate", "reorder", "delay")


class Run:
    """A run on virtual time: messages 1 to `count` of x and some of z go through faults. It records
    the messages that arrived and the credits that returned.
    """

    def __init__(
        self, shares: Shares, count: int = 200, seed: int = 1, *, close: bool = False
    ) -> None:
        self.arrived: list[tuple[str, int]] = []
        self.released: Counter[int] = Counter()
        self.unread: list[tuple[int, Release]] = []
        self.faults = Faults(self._deliver, shares, seed=seed, seconds=1.0)
        run_virtual(self._main(count, close))

    async def _main(self, count: int, close: bool) -> None:
        for number in range(1, count + 1):
            self._send("x", number, Note(number=number, text=""))
            if number % 3 == 0:
                self._send("z", -number, Load(number=number, blobs=(np.zeros(1),)))
            if number % 5 == 0:
                await asyncio.sleep(0.1)
        if close:
            self.faults.close()
            self._send("x", count + 1, Note(number=0, text=""))
        await asyncio.sleep(5)
        for index, (number, release) in enumerate(self.unread):
            release()
            last = all(number != other for other, _ in self.unread[index + 1 :])
            assert self.released[number] == last

    def _send(self, sender: str, number: int, body: Message) -> None:
        release = self._release(number)
        self.faults(Envelope(body, number, sender, 1, "y"), 10, release)

    def _release(self, number: int) -> Callable[[], None]:
        return lambda: self.released.update([number])

    def _deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        assert size == 10
        self.arrived.append((envelope.sender, envelope.id))
        self.unread.append((envelope.id, release))

    def of(self, sender: str) -> list[int]:
        return [number for name, number in self.arrived if name == sender]

    def copies(self) -> Counter[int]:
        return Counter(number for _, number in self.arrived)


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.floats(0, 0.25)] * 4), st.integers(0, 1000), st.booleans())
def test_every_credit_returns_once_when_the_last_copy_was_read_under_any_faults(
    shares: tuple[float, ...], seed: int, close: bool
) -> None:
    run = Run(Shares(*shares), 60, seed, close=close)
    everything = set(range(1, 61 + close)) | {-number for number in range(3, 61, 3)}
    assert run.released == dict.fromkeys(everything, 1)
    assert set(run.copies()) <= everything


def test_dropped_messages_do_not_arrive() -> None:
    run = Run(Shares(drop=0.2))
    assert len(run.arrived) == 266 - run.faults.counts["drop"]
    assert 30 < run.faults.counts["drop"] < 80
    assert run.of("x") == sorted(run.of("x"))


def test_duplicated_messages_arrive_twice() -> None:
    run = Run(Shares(duplicate=0.2))
    assert list(run.copies().values()).count(2) == run.faults.counts["duplicate"] > 30
    assert set(run.copies().values()) == {1, 2}


def test_reordered_messages_are_overtaken_by_the_next_of_their_sender() -> None:
    run = Run(Shares(reorder=0.2))
    overtakers = [
        number
        for sender in "xz"
        for number, after in pairwise(run.of(sender))
        if abs(after) < abs(number)
    ]
    assert len(overtakers) == run.faults.counts["reorder"] > 30
    assert set(run.copies().values()) == {1} and len(run.arrived) == 266


def test_a_message_that_nothing_overtakes_is_only_delayed() -> None:
    run = Run(Shares(reorder=1.0), 1)
    assert run.of("x") == [1]
    assert run.faults.counts == {"delay": 1}


def test_delayed_messages_keep_their_order_and_hold_up_only_their_sender_and_lane() -> None:
    run = Run(Shares(delay=0.2))
    assert run.of("x") == list(range(1, 201))
    assert run.of("z") == [-number for number in range(3, 201, 3)]
    assert [abs(number) for _, number in run.arrived] != sorted(
        abs(number) for _, number in run.arrived
    )
    assert run.faults.counts["delay"] > 30


def test_a_seed_repeats_the_faults_of_every_message_and_another_seed_changes_them() -> None:
    shares = Shares(drop=0.1, duplicate=0.1, reorder=0.1, delay=0.1)
    runs = [Run(shares, seed=seed).arrived for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_counts_add_up_and_are_shown_in_one_line() -> None:
    faults = Run(Shares(drop=0.1, duplicate=0.1, reorder=0.1, delay=0.1)).faults
    assert sum(faults.counts.values()) == 266
    assert set(faults.counts) == {*NAMES, "none"}
    assert repr(Run(Shares(), 1).faults) == "<faults none 1>"


@pytest.mark.parametrize("wrong", [{"drop": -0.1}, {"delay": 1.1}, {"drop": 0.6, "reorder": 0.6}])
def test_negative_and_too_large_shares_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConvoyError, match="0 or more, and all together 1 at most"):
        Shares(**wrong)

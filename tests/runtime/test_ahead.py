"""What is said of messages that were sent ahead, and how long a loop stays awake for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.messages import wire
from runtime.messages.message import Envelope, WindDown
from runtime.messages.pending import Pending
from runtime.transport import ahead

NUMBERS = st.integers(0, 2**64 - 1)


@given(what=st.sampled_from((ahead.COMPLETE, ahead.WITHDRAWN)), number=NUMBERS)
def test_a_word_is_read_as_it_was_said(what: int, number: int) -> None:
    frames: list[Any] = [ahead.word(what, number)]
    assert ahead.is_word(frames)
    assert ahead.read(frames) == (what, number)
    assert ahead.read([*frames, b"header"]) is None
    frames[0] = ahead.word(ahead.ANNOUNCED, number)
    assert ahead.read(frames) is None
    assert ahead.read([*frames, b"header"]) == (ahead.ANNOUNCED, number)


@given(frames=st.lists(st.binary(max_size=12), max_size=3))
def test_whatever_else_comes_is_no_word(frames: list[Any]) -> None:
    if ahead.is_word(frames):
        found = ahead.read(frames)
        assert found is None or ahead.word(*found) == frames[0]


def test_no_message_is_taken_for_a_word() -> None:
    envelope = Envelope(WindDown(reason="x" * 1000), 2**60, "a", 1, "b")
    assert not ahead.is_word(wire.encode(envelope))
    assert not ahead.is_word([])
    assert not ahead.is_word([b""])


class Loop:
    """Counts its turns; its clock goes on by a tenth of a millisecond in each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ready: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.ready.append((callback, args))

    def turns(self, most: int = 1000) -> int:
        """Turns until nothing is to be done, or so many."""
        for turn in range(most):
            if not self.ready:
                return turn
            callback, args = self.ready.popleft()
            assert not self.ready, "two callbacks look for one thing"
            callback(*args)
            self.now += 1e-4
        return most


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(ahead.asyncio, "get_running_loop", lambda: made)
    return made


def test_a_loop_sleeps_again_soon_if_what_was_announced_does_not_come(loop: Loop) -> None:
    lookout = ahead.Lookout()
    lookout.announced()
    assert abs(loop.turns() - ahead.AWAKE_SECONDS * 1e4) <= 1
    lookout.settled()
    assert loop.turns() == 0


def test_a_loop_sleeps_when_everything_that_was_announced_has_come(loop: Loop) -> None:
    lookout = ahead.Lookout()
    lookout.announced()
    lookout.announced()
    lookout.settled()
    assert loop.turns(5) == 5
    lookout.settled()
    assert loop.turns() == 1


def test_each_announcement_keeps_a_loop_awake_anew(loop: Loop) -> None:
    lookout = ahead.Lookout()
    for _ in range(3):
        lookout.announced()
        assert loop.turns(15) == 15
    assert 0 < loop.turns() < 10
    lookout.announced()
    assert loop.turns() > 15


@pytest.mark.parametrize("complete", [True, False])
def test_who_waits_for_a_pending_message_hears_once_how_it_ends(complete: bool) -> None:
    heard: list[bool] = []
    pending = Pending()
    tell = partial(heard.append, True), partial(heard.append, False)
    for _ in range(2):
        pending.then(*tell)
    assert heard == []
    pending.settle(complete=complete)
    assert heard == [complete] * 2
    pending.then(*tell)
    assert heard == [complete] * 3

"""A run that stands still although every process lives: it is reported with the waits between its
actors; an idle run is not.
"""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.lifecycle import Heartbeat
from runtime.cluster.supervising.standstill import PATIENCE, Standstill

BEAT = 0.5


def actor(
    steps: int = 0, waiting_for: str = "", doing: str = "idle", blocked: tuple[str, int] = ("", 0)
) -> Any:
    return {"steps": steps, "waiting_for": waiting_for, "doing": doing, "blocked_by": blocked}


def beat(process: str = "p", busy: float = 0.0, period: float = BEAT, **actors: Any) -> Heartbeat:
    return Heartbeat(
        process=process,
        period=period,
        progress=1,
        busy_seconds=busy,
        usual_seconds=0.0,
        busy_with="",
        loop_lag=0.0,
        actors=actors,
    )


class Watched:
    """A run with the lead "lead", which gets a heartbeat every half second."""

    def __init__(self, floor: float = 30.0) -> None:
        self.standstill = Standstill("lead", floor)
        self.now = 0.0

    def seconds(self, seconds: float, **beaten: Any) -> str | None:
        """The first verdict while this heartbeat repeats for so many seconds."""
        for _ in range(round(seconds / BEAT)):
            self.now += BEAT
            why = self.standstill.beat(beat(**beaten), self.now)
            if why is not None:
                return why
        return None


def test_a_lead_that_counts_no_steps_may_be_idle_for_ever() -> None:
    assert Watched().seconds(1000, lead=actor(0, "a")) is None


def test_a_lead_without_a_new_step_for_half_a_minute_is_reported_with_all_waits() -> None:
    watched = Watched()
    others = {"a": actor(0, "b", "Pull"), "b": actor(0, "", "Push"), "c": actor()}
    assert watched.seconds(30, lead=actor(1), **others) is None
    why = watched.seconds(1, lead=actor(1), **others)
    told = "the run stands still: lead has ended no step for 30 s, and no process computes: "
    assert why == told + "a waits for b in Pull; b is in Push"


def test_steps_keep_a_run_alive_and_slow_ones_give_it_more_time() -> None:
    watched = Watched()
    for number in range(1, 20):
        assert watched.seconds(5, lead=actor(number)) is None
    assert watched.seconds(PATIENCE * 5 - 10, lead=actor(19)) is None
    why = watched.seconds(15, lead=actor(19))
    assert why is not None
    assert "which usually takes 5 s" in why


def test_a_process_that_computes_keeps_the_run_alive_and_has_another_rule() -> None:
    watched = Watched()
    watched.seconds(5, lead=actor(3))
    for _ in range(20):
        assert watched.seconds(20, lead=actor(3)) is None
        assert watched.seconds(BEAT, process="worker", busy=0.2, w=actor()) is None
        assert watched.seconds(BEAT, lead=actor(3)) is None
        assert watched.seconds(BEAT, process="worker", busy=0.0, w=actor()) is None


def test_a_run_that_was_stopped_as_a_whole_has_not_stood_still() -> None:
    watched = Watched()
    watched.seconds(5, lead=actor(3))
    assert watched.standstill.beat(beat(period=3600.0, lead=actor(3)), 4000.0) is None


def circle(*numbers: int) -> list[tuple[str, Any]]:
    """Beats of two processes whose handlers ask each other; `numbers` are the numbers of their
    asks.
    """
    pairs = (("a", "b"), ("b", "a"))
    return [
        (x, actor(0, y, "Ask", (y, number))) for (x, y), number in zip(pairs, numbers, strict=True)
    ]


def verdicts(beats: list[list[tuple[str, Any]]]) -> list[str | None]:
    """The verdict after each round of beats; rounds are half a second apart."""
    standstill = Standstill("lead", 30.0)
    found = []
    for number, given in enumerate(beats):
        why = None
        for name, status in given:
            why = standstill.beat(beat(name, **{name: status}), number * BEAT) or why
        found.append(why)
    return found


def test_a_circle_of_asks_is_reported_at_its_second_beat() -> None:
    first, second = verdicts([circle(1, 1), circle(1, 1)])
    assert first is None
    assert second is not None
    assert second.startswith("the run stands still: a (in Ask) asked b and b (in Ask) asked a: ")


@pytest.mark.parametrize(
    "beats",
    [
        # the numbers change: earlier asks were answered
        [circle(1, 1), circle(2, 1), circle(3, 2), circle(4, 2)],
        # the circle closes only in the last round
        [circle(1, 1)[:1], circle(1, 1)[:1], circle(1, 1)],
        # no circle
        [[("a", actor(0, "b", "Ask", ("b", 1))), ("b", actor(0, "c", "Ask", ("c", 1)))]] * 5,
        # the asks come from outside handlers, so the actors can still answer
        [[("a", actor(0, "b")), ("b", actor(0, "a"))]] * 5,
    ],
)
def test_asks_that_can_be_answered_are_not_a_circle(beats: list[list[tuple[str, Any]]]) -> None:
    assert verdicts(beats) == [None] * len(beats)

"""Sums of the times of work, which a run reports as its service times while it goes on."""

from __future__ import annotations

from runtime.compute.work_sums import WorkSums


def test_sums_count_pieces_their_seconds_and_the_squares_of_these() -> None:
    sums = WorkSums()
    for seconds in (0.1, 0.3):
        sums.note("worker", "forward", seconds)
    sums.note("server", "update", 2.0)
    assert sums.changed() == {
        "worker": {"forward": [2, 0.4, 0.1 * 0.1 + 0.3 * 0.3]},
        "server": {"update": [1, 2.0, 4.0]},
    }
    assert repr(sums) == "<sums of 2 kinds of work, 3 pieces>"


def test_only_sums_that_have_grown_are_reported_and_always_since_the_beginning() -> None:
    sums = WorkSums()
    sums.note("worker", "forward", 1.0)
    sums.note("worker", "backward", 2.0)
    sums.changed()
    assert sums.changed() == {}
    sums.note("worker", "backward", 3.0)
    assert sums.changed() == {"worker": {"backward": [2, 5.0, 13.0]}}


def test_reported_sums_do_not_change_with_later_work() -> None:
    sums = WorkSums()
    sums.note("worker", "forward", 1.0)
    told = sums.changed()
    sums.note("worker", "forward", 1.0)
    assert told == {"worker": {"forward": [1, 1.0, 1.0]}}

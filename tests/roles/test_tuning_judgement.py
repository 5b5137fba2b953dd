"""When one probe is clearly worse than another."""

from __future__ import annotations

import pytest

from roles.tuning.choices import Trial
from roles.tuning.judgement import clearly_worse, ended_in, judged

HARD = [1.0, 3.0, 0.5, 2.0, 4.0, 0.7, 1.5, 2.5]  # losses of eight batches, some harder than others


def times(factor: float) -> list[float]:
    return [factor * loss for loss in HARD]


@pytest.mark.parametrize(
    ("one", "paired", "worse"),
    [
        (times(1.03), True, False),  # surely, but by less than anybody feels
        (times(1.10), True, True),
        (times(1.10), False, False),  # without the pairs it is within what batches differ
        (times(5.0), False, True),
        (times(0.5), True, False),
        ([*HARD[:7], 100.0], True, False),  # one batch says nothing
        # an explosion varies as much as it is large
        ([10.0**power for power in range(1, 9)], False, True),
        ([], True, True),
    ],
)
def test_a_probe_is_clearly_worse_by_more_than_five_percent_and_by_its_ranks(
    one: list[float], paired: bool, worse: bool
) -> None:
    assert clearly_worse(one, HARD, paired=paired) is worse


def test_nothing_is_worse_than_what_diverged() -> None:
    assert not clearly_worse(HARD, [], paired=True)
    assert not clearly_worse([], [], paired=True)


def test_the_last_half_of_a_probe_counts_fifty_at_most_and_none_of_one_that_diverged() -> None:
    losses = tuple(map(float, range(200)))
    assert judged(Trial(losses[:20], 20.0)) == losses[10:20]
    assert judged(Trial(losses, 200.0)) == losses[150:]
    assert judged(Trial(losses, 200.0), 60) == losses[30:60]
    assert judged(Trial(losses, 200.0, diverged=True)) == ()


def test_so_many_iterations_had_ended() -> None:
    trial = Trial((1.0,) * 10, 5.0)
    assert [ended_in(trial, seconds) for seconds in (0.0, 0.4, 0.5, 4.9, 5.0, 99.0)] == [
        0,
        0,
        1,
        9,
        10,
        10,
    ]
    assert ended_in(Trial((1.0,) * 10, 0.0), 1.0) == 10  # on virtual time work may take none
    assert ended_in(Trial((), 0.0, diverged=True), 1.0) == 0

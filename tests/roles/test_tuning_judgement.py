"""The decision whether one probe is clearly worse than another."""

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
        (times(1.03), True, False),  # certainly worse, but by an unimportant amount
        (times(1.10), True, True),
        # without the pairs, the difference is within the variation of batches
        (times(1.10), False, False),
        (times(5.0), False, True),
        (times(0.5), True, False),
        ([*HARD[:7], 100.0], True, False),  # one batch proves nothing
        # the losses of an explosion vary as much as they are large
        ([10.0**power for power in range(1, 9)], False, True),
        ([], True, True),
    ],
)
def test_a_probe_is_clearly_worse_by_more_than_five_percent_and_by_its_ranks(
    one: list[float], paired: bool, worse: bool
) -> None:
    assert clearly_worse(one, HARD, paired=paired) is worse


def test_nothing_is_worse_than_a_diverged_probe() -> None:
    assert not clearly_worse(HARD, [], paired=True)
    assert not clearly_worse([], [], paired=True)


def test_at_most_fifty_iterations_of_a_probes_last_half_count_and_none_after_divergence() -> None:
    losses = tuple(map(float, range(200)))
    assert judged(Trial(losses[:20], 20.0)) == losses[10:20]
    assert judged(Trial(losses, 200.0)) == losses[150:]
    assert judged(Trial(losses, 200.0), 60) == losses[30:60]
    assert judged(Trial(losses, 200.0, diverged=True)) == ()


def test_the_number_of_iterations_that_had_ended() -> None:
    trial = Trial((1.0,) * 10, 5.0)
    assert [ended_in(trial, seconds) for seconds in (0.0, 0.4, 0.5, 4.9, 5.0, 99.0)] == [
        0,
        0,
        1,
        9,
        10,
        10,
    ]
    assert ended_in(Trial((1.0,) * 10, 0.0), 1.0) == 10  # on virtual time, work may take no time
    assert ended_in(Trial((), 0.0, diverged=True), 1.0) == 0

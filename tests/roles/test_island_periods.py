"""The predicted periods of islands, compared with simple cases whose times follow by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roles.forecasting.island_periods import IslandMachine, IslandRun, periods
from roles.learning.local_steps import LocalSteps

RUN = IslandRun(iterations=100_000, local=LocalSteps(period=10))
APART = IslandMachine("server", (), bytes_per_second=1e6)


def machines(*seconds: float, size: float = 0.0, rate: float = 1e6) -> list[IslandMachine]:
    """A machine with one island for each of these seconds of an iteration."""
    return [
        IslandMachine(f"m{rank}", (each,), size, size, bytes_per_second=rate, variation=0.0)
        for rank, each in enumerate(seconds)
    ]


def test_an_island_alone_sends_a_gain_after_its_steps_and_its_coding() -> None:
    (found,) = periods(machines(0.1), replace(RUN, work=0.02, merge=5.0, overlaps=False, grace=0.0))
    assert found.seconds == pytest.approx(10 * 0.1 + 0.02 + 5.0)
    assert found.steps == 10
    assert found.speed == pytest.approx(10 / 6.02)


def test_gains_that_leave_together_share_the_link_of_the_server() -> None:
    """Four messages of 1 MB at 1 MB/s take 4 s to the server, and 4 s back."""
    together = replace(
        RUN, grace=None, local=LocalSteps(period=10, together=True), apart=APART, overlaps=False
    )
    found = periods(machines(0.1, 0.1, 0.1, 0.1, size=1e6), together)
    assert [one.seconds for one in found] == pytest.approx([1.0 + 8.0] * 4)


def test_an_island_whose_answer_comes_in_time_does_not_wait() -> None:
    (one, other) = periods(machines(0.1, 0.1, size=0.1e6), replace(RUN, apart=APART))
    assert one.seconds == other.seconds == pytest.approx(1.0)


def test_an_island_whose_answer_comes_late_sends_as_often_as_answers_come() -> None:
    found = periods(machines(0.1, size=3e6), replace(RUN, apart=APART, grace=0.0))
    assert found[0].seconds == pytest.approx(6.0)


def test_a_period_grows_with_the_seconds_to_the_server_if_no_key_gives_it() -> None:
    """An exchange of 3 s there and 3 s back takes 60 iterations of 0.1 s."""
    found = periods(machines(0.1, size=3e6), replace(RUN, local=LocalSteps(), apart=APART, grace=0))
    assert found[0].steps == 60


def test_a_gain_waits_for_the_grace_window_unless_all_gains_are_there() -> None:
    alone = replace(RUN, overlaps=False, local=LocalSteps(period=1, equal=True))
    fast, slow = periods(machines(0.1, 10.0), alone)
    assert fast.seconds == pytest.approx(0.1 + 0.25, rel=0.05)
    assert slow.seconds == pytest.approx(10.0, rel=0.05)
    assert [one.seconds for one in periods(machines(0.1, 0.1), alone)] == pytest.approx([0.1] * 2)


def test_a_varying_machine_has_the_same_prediction_each_time() -> None:
    varying = [replace(one, variation=0.04) for one in machines(0.1, 0.2, size=1e5)]
    assert periods(varying, RUN) == periods(varying, RUN)
    assert periods(varying, RUN) != periods(machines(0.1, 0.2, size=1e5), RUN)


@pytest.mark.parametrize("slower", [1e4, 1e9])
def test_an_island_that_hardly_ever_sends_has_a_period_of_its_steps_at_least(slower: float) -> None:
    """Without an end, the fast island would send gains until the slow one has sent some."""
    fast, slow = periods(machines(0.1, 0.1 * slower), RUN)
    assert fast.seconds == pytest.approx(1.0, rel=0.05)
    assert (slow.seconds, slow.steps) == (pytest.approx(0.1 * slower, rel=0.05), 1)


def test_an_island_whose_gain_never_arrives_has_a_period_of_its_exchange_at_least() -> None:
    near, far = machines(0.1, 0.1, size=1e6)
    _, found = periods([near, replace(far, bytes_per_second=1e-3)], RUN)
    assert found.seconds == pytest.approx(2e9)
    assert found.steps == 10


@pytest.mark.parametrize("variation", [0.0, 0.0025])
def test_a_period_is_no_longer_than_the_run(variation: float) -> None:
    """Iterations of a very long period are drawn together."""
    (machine,) = machines(0.1)
    long = replace(RUN, local=LocalSteps(period=10**18), overlaps=False, grace=0.0)
    (found,) = periods([replace(machine, variation=variation)], long)
    assert found.steps == RUN.iterations
    assert found.seconds == pytest.approx(0.1 * RUN.iterations, rel=0.01)


@pytest.mark.parametrize("variation", [1e-310, 1e-13, 25.0, 1e12, math.inf])
def test_any_variation_of_iterations_leads_to_a_period(variation: float) -> None:
    for one in periods([replace(each, variation=variation) for each in machines(0.1, 0.2)], RUN):
        assert 0 < one.seconds < math.inf

"""The predicted worth of machines with islands, compared with measurements of real learning and with
simple models."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roles.forecasting.island_periods import IslandMachine, IslandRun
from roles.forecasting.island_worth import learned, pace, worths
from roles.learning.local_steps import LocalSteps

RUN = IslandRun(iterations=100_000)
FAST = 125e6  # bytes per second


def machine(name: str, seconds: float, rate: float = FAST, gain: float = 230e3) -> IslandMachine:
    """A machine with one island, and links of 20 ms."""
    return IslandMachine(name, (seconds,), gain, gain, 0.02, rate)


UNEQUAL = [machine(f"m{rank}", 0.2 / speed) for rank, speed in enumerate((4, 2, 1, 1))]


@pytest.mark.parametrize(
    ("speeds", "periods", "measured"),
    [((1, 1, 2, 4), 117, 0.66), ((1, 1, 2, 4), 234, 0.80), ((1, 1, 2, 20), 195, 0.95)],
)
def test_the_rule_of_learning_fits_what_islands_have_learned(
    speeds: tuple[float, ...], periods: float, measured: float
) -> None:
    """ResNet of 8 layers on CIFAR-10; the last was not used to find the constant."""
    assert learned(speeds, periods) == pytest.approx(measured, abs=0.03)


def test_one_island_learns_as_one_process_and_equal_islands_lose_most() -> None:
    assert learned([3.0], 1) == 1
    assert learned([1, 1, 1, 1], 100) < learned([1, 1, 1, 9], 100) < 1
    assert learned([1, 1, 1, 1], 10_000) > 0.98


def test_links_that_carry_a_gain_in_time_slow_no_island_down() -> None:
    found = pace(UNEQUAL, RUN)
    assert found.rate == pytest.approx(40, rel=0.01)
    assert found.period == pytest.approx(0.05 * 16, rel=0.05)


def test_without_overlap_an_exchange_is_added_to_each_period() -> None:
    slow = [machine(f"m{rank}", 0.1, 1e6, 1e6) for rank in range(2)]
    local = LocalSteps(period=10)
    apart = replace(RUN, overlaps=False, grace=0.0, local=local)
    # the island next to the server does not wait for a link
    expected = 2 / (1 / 1 + 1 / (1 + 2 * 1.02))
    assert pace(slow, apart).period == pytest.approx(expected, rel=0.01)  # iterations vary
    together = replace(RUN, grace=None, local=replace(local, together=True))
    assert pace(slow, together).period == pytest.approx(1 + 2 * 1.02, rel=0.01)


def test_a_machine_that_adds_a_hundredth_of_the_speed_is_left_out_of_a_short_run() -> None:
    short = replace(RUN, iterations=2000)
    home = [machine("desktop", 0.05), machine("laptop", 0.1), machine("nuc", 1.0)]
    desktop, laptop, nuc = worths(home, short)
    assert desktop.used and laptop.used and not nuc.used
    assert laptop.share > 0.1
    assert nuc.share < 0
    assert str(nuc) == f"nuc {round(100 * nuc.share):+d} %"
    assert all(one.used for one in worths(home, RUN))


def test_a_machine_whose_link_makes_periods_long_is_left_out_and_the_reason_is_its_link() -> None:
    home = [machine("desktop", 0.05), machine("laptop", 0.05), machine("far", 0.05, 20e3)]
    run = replace(RUN, iterations=20_000)
    *near, far = worths(home, run)
    assert all(one.used for one in near)
    assert not far.used
    assert "its link makes a period" in far.why
    assert all(one.used for one in worths([*home[:2], machine("far", 0.05)], run))


def test_a_slow_machine_with_a_link_that_takes_no_time_is_not_said_to_have_a_slow_link() -> None:
    home = [machine("desktop", 0.01, math.inf), machine("old", 0.2, math.inf)]
    home = [replace(one, latency=0.0) for one in home]
    _, old = worths(home, replace(RUN, iterations=300))
    assert not old.used
    assert "as its slow iterations make a period" in old.why


def test_a_worth_is_the_ratio_of_what_the_machines_learn_with_and_without_it() -> None:
    for one in worths(UNEQUAL, RUN):
        rest = [other for other in UNEQUAL if other.name != one.machine]
        expected = pace(UNEQUAL, RUN).value / pace(rest, RUN).value - 1
        assert one.share == pytest.approx(expected)


def test_islands_of_one_machine_share_its_link() -> None:
    run = replace(RUN, local=LocalSteps(period=1), grace=0.0)
    one = [machine("desktop", 0.05), machine("laptop", 0.05, 1e6, 1e6)]
    two = [one[0], replace(one[1], seconds=(0.05, 0.05))]
    assert pace(one, run).rate == pytest.approx(20 + 1 / 2.04, rel=0.01)
    assert pace(two, run).rate == pytest.approx(20 + 1 / 2.04, rel=0.01)


@pytest.mark.few("[1e9]")
@pytest.mark.parametrize("faster", [1e4, 1e9], ids=["1e4", "1e9"])
def test_a_machine_next_to_a_far_faster_one_brings_next_to_nothing(faster: float) -> None:
    quick, slow = worths([machine("quick", 0.1), machine("slow", 0.1 * faster)], RUN)
    assert quick.used
    assert quick.share == pytest.approx(faster, rel=0.02)
    assert abs(slow.share) < 0.01


def test_of_equal_machines_of_which_one_is_enough_the_first_is_kept() -> None:
    equal = [machine(name, 0.01, 1e6) for name in ("desktop", "laptop", "old")]
    found = worths(equal, replace(RUN, iterations=300))
    assert [one.machine for one in found if one.used] == ["desktop"]
    assert all("its link makes" in one.why for one in found[1:])

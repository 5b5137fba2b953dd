"""Iterations to a target, estimated from the counts of earlier runs: the arithmetic, for given
counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.forecasting.statistical import ONE_GRADIENT, Counted, Efficiency, Setting
from roles.options import Strategy
from roles.planning.strategies import PRESETS, manner_of
from runtime.plan.prospects import Needed, Prospect

STALE = "conv layers stale"
RACING = "conv layers stale, updates race"
COUNTS = st.integers(1, 10**6)
GROUPS = st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True)


def counted(
    groups: int, iterations: int | None, momentum: float = 0.9, manner: str = STALE
) -> Counted:
    return Counted(
        Setting(ONE_GRADIENT if groups == 1 else manner, groups, momentum, 0.01), iterations
    )


def needed(runs: list[Counted], groups: int, manner: str = STALE) -> Needed:
    return Efficiency(runs).needed(ONE_GRADIENT if groups == 1 else manner, groups)


@given(st.dictionaries(st.integers(1, 64), COUNTS, min_size=1, max_size=8))
def test_an_observed_setting_gives_its_own_count(counts: dict[int, int]) -> None:
    runs = [counted(groups, count) for groups, count in counts.items()]
    assert {groups: needed(runs, groups) for groups in counts} == {
        g: Needed(n, seen=True) for g, n in counts.items()
    }


@given(COUNTS, COUNTS, st.integers(1, 8), st.integers(1, 8), st.data())
def test_the_estimate_between_two_numbers_of_groups_lies_between_their_counts(
    first: int, last: int, few: int, more: int, data: st.DataObject
) -> None:
    runs = [counted(few, first), counted(few + more + 1, last)]
    groups = data.draw(st.integers(few + 1, few + more))
    found = needed(runs, groups)
    assert found.steps is not None
    assert not found.seen
    assert min(first, last) - 1e-6 <= found.steps <= max(first, last) + 1e-6


@given(COUNTS, COUNTS)
def test_each_doubling_adds_as_many_iterations(first: int, last: int) -> None:
    runs = [counted(1, first), counted(16, last)]
    found = [needed(runs, groups).steps for groups in (1, 2, 4, 8, 16)]
    assert found == pytest.approx([first + (last - first) * part / 4 for part in range(5)])


@given(GROUPS, st.integers(1, 200))
def test_beyond_the_observed_settings_nothing_is_known(seen: list[int], groups: int) -> None:
    found = needed([counted(each, 100) for each in seen], groups)
    assert (found.steps is None) == (groups < min(seen) or groups > max(seen))
    assert found.steps is not None or found.why == "not known"


@given(st.lists(COUNTS, min_size=1, max_size=6), st.lists(COUNTS, min_size=1, max_size=6))
def test_of_two_settings_the_better_one_counts_and_of_several_runs_of_one_a_run_in_the_middle(
    one: list[int], other: list[int]
) -> None:
    runs = [counted(4, count, 0.3) for count in one] + [counted(4, count, 0.6) for count in other]
    middle = sorted(one)[len(one) // 2], sorted(other)[len(other) // 2]
    assert needed(runs, 4).steps == min(middle)
    best = Efficiency(runs).best(STALE, 4)
    assert best is not None
    assert best.momentum == (0.3 if middle[0] <= middle[1] else 0.6)


def test_a_setting_that_fails_in_half_of_its_runs_has_not_reached_the_target() -> None:
    assert needed([counted(2, 10), counted(2, None)], 2) == Needed(why="not reached")
    assert needed([counted(2, 10), counted(2, 12), counted(2, None)], 2).steps == 12
    assert Efficiency([counted(2, None)]).best(STALE, 2) is None


def test_next_to_a_number_of_groups_that_failed_nothing_is_known() -> None:
    runs = [counted(1, 100), counted(4, None), counted(16, 100)]
    assert [needed(runs, groups).why for groups in (2, 4, 8)] == [
        "not known",
        "not reached",
        "not known",
    ]


def test_runs_of_another_manner_give_no_estimate_but_one_group_belongs_to_every_manner() -> None:
    runs = [counted(1, 100), counted(4, 300, manner=RACING)]
    assert needed(runs, 2, STALE).steps is None
    assert needed(runs, 2, RACING).steps == 200


@given(st.floats(1e-6, 1e6), COUNTS, st.floats(0.01, 100))
def test_time_to_the_target_is_a_product_and_cost_another(
    seconds: float, steps: int, price: float
) -> None:
    choice = Prospect("", 1, seconds, {}, "", Needed(steps, seen=True), price)
    assert choice.to_target == pytest.approx(steps * seconds)
    assert choice.cost == pytest.approx(steps * seconds / 3600 * price)
    assert Prospect("", 1, seconds, {}, "", Needed(), price).cost is None


def manner(preset: str, groups: int, **more: object) -> str:
    return manner_of(Strategy(preset=preset, workers=4, **more), groups)  # type: ignore[arg-type]


def test_with_one_group_presets_that_update_by_the_whole_batch_share_their_counts() -> None:
    of_one = {name for name in PRESETS if manner(name, 1) == ONE_GRADIENT}
    assert of_one == set(PRESETS) - {"sparknet", "dl4j", "islands"}
    assert manner("local-fc-shards", 1, scheme="b", variable_batch=True) != ONE_GRADIENT


def test_with_several_groups_presets_with_the_same_stale_layers_share_their_counts() -> None:
    assert manner("omnivore", 4) == manner("async", 4) == manner("local-fc-shards", 4)
    assert manner("mxnet-async", 4) == manner("singa", 4) == manner("distbelief", 4)
    assert (
        len({manner(name, 4) for name in ("omnivore", "mxnet-async", "adam", "sparknet", "dl4j")})
        == 5
    )


def test_averaging_runs_share_counts_if_they_have_as_many_workers_averaged_as_often() -> None:
    assert manner("sparknet", 1, tau=5) not in (
        manner("sparknet", 1, tau=10),
        manner("dl4j", 1, tau=5),
    )


@given(st.sampled_from(["omnivore", "adam", "singa"]), st.integers(2, 64), st.integers(2, 64))
def test_a_manner_does_not_depend_on_how_many_groups_there_are(
    preset: str, one: int, other: int
) -> None:
    assert manner(preset, one) == manner(preset, other)

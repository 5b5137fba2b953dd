"""The cold start of runs that are too short for grids, in laboratories with a known best
setting."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable

import pytest

from roles.tuning.choices import Choices, Setting, alike, careful, most_careful, of_gain
from roles.tuning.compensation import Compensation
from roles.tuning.search import instead, tune
from roles.tuning.trials import Trials
from tests.roles.laboratories import Quadratic, Written
from tests.roles.test_tuning_search import MOMENTA, RATES, START, chosen

# the settings that keep the whole gain of a gradient
WHOLE = {groups: alike(START, groups) or START for groups in (2, 4, 8)}


def learns(at: int) -> float:
    return 20.0 / (20.0 + at)


def learns_slowly(setting: Setting, at: int) -> float:
    """A loss that falls slowly, and not at all above the run's rate, as CIFAR-10 quick with several
    groups."""
    return 2.3 - 0.001 * at if setting.base_lr <= 0.001 else 2.3


@pytest.mark.parametrize(
    ("poor", "loss", "taken"),
    [
        (600, lambda setting, at: learns(at), WHOLE[8]),
        (2000, lambda setting, at: learns(at), WHOLE[8]),
        (
            2000,
            lambda setting, at: math.nan if setting.groups > 4 else learns(at),
            WHOLE[4],
        ),
        # more groups are worse at any rate
        (2000, lambda setting, at: 1.0 + at * (setting.groups > 1), START),
        (
            2000,
            lambda setting, at: 1.0 + 30 * at if setting.groups > 4 else learns(at),
            WHOLE[4],
        ),  # the loss rises tenfold
    ],
)
def test_a_run_too_short_for_grids_takes_the_most_groups_that_learn_alike_by_theory(
    poor: int, loss: Callable[[Setting, int], float], taken: Setting
) -> None:
    lab = Written(loss, {1: 1.0, 2: 0.6, 4: 0.4, 8: 0.3, 16: 0.2}.__getitem__)
    choices = Choices(groups=(1, 2, 4, 8, 16), momenta=MOMENTA, rates=RATES, last=poor)
    assert chosen(lab, choices).setting == taken


SHORT = Choices(groups=(1, 2, 4, 8, 16), momenta=MOMENTA, rates=RATES, last=2000)


PACES = {1: 0.9, 2: 0.6, 4: 0.31, 8: 0.3}


def test_a_short_run_probes_the_most_groups_and_then_those_of_the_model_and_no_others() -> None:
    lab = Written(lambda setting, at: learns(at), {1: 9.0, 2: 3.0, 4: 0.31, 8: 0.3}.__getitem__)
    found = chosen(lab, SHORT)
    # 16 groups would need a negative momentum
    assert [setting.groups for setting, _ in lab.asked[:2]] == [8, 4]
    assert {setting.groups for setting, _ in lab.asked} == {8, 4}
    assert (found.saturated, found.setting) == (4, WHOLE[4])


@pytest.mark.parametrize(("best", "taken"), [(1.0, 1.0), (3.0, 3.0)])
def test_a_short_run_takes_three_times_the_rate_as_long_as_that_is_clearly_better(
    best: float, taken: float
) -> None:
    """Rates as multiples of the rate that keeps the whole gain."""
    best *= WHOLE[8].base_lr
    taken *= WHOLE[8].base_lr

    def loss(setting: Setting, at: int) -> float:
        return (
            math.nan
            if setting.base_lr > 2 * best and at > 20
            else 2.0 - at / 25 * setting.base_lr / best
        )

    lab = Written(loss, {1: 1.0, 2: 0.9, 4: 0.8, 8: 0.2}.__getitem__)
    choices = Choices(
        groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=3200, probe_iterations=16
    )
    found = chosen(lab, choices)
    assert choices.is_short(3200)
    assert found.setting == WHOLE[8].but(base_lr=taken)
    assert (
        f"base_lr {3 * taken:.4g} is not clearly better"
    ) in found.why or "too small to try" in found.why


def test_a_higher_rate_whose_loss_ends_far_above_its_first_is_not_better() -> None:
    """In the later half of its probe of 24 iterations the mean is the lower one of two. The last
    quarter is 1.6 times the first loss, and no more than 1.5 times the quarter before."""

    def loss(setting: Setting, at: int) -> float:
        if setting.base_lr > WHOLE[4].base_lr:
            return 1.0 if at == 0 else 0.8 if at < 12 else 1.2 if at < 18 else 1.6
        return 1.0 if at == 0 else 0.9 if at < 12 else 1.7

    found = chosen(Written(loss, PACES.__getitem__), SHORT)
    assert found.setting == WHOLE[4]
    assert "is not clearly better" in found.why


@pytest.mark.parametrize(
    ("bears", "taken"), [(0.02, careful(START, 4)), (0.0125, most_careful(START, 4))]
)
def test_a_net_that_does_not_bear_the_whole_gain_gets_less_momentum_at_the_rate_of_the_run(
    bears: float, taken: Setting
) -> None:
    """The gain, base_lr / (1 - momentum), is 0.025 and 0.0118 with these settings."""

    def loss(setting: Setting, at: int) -> float:
        gain = setting.base_lr / (1 - setting.momentum)
        if gain > 2 * bears:
            return 2.3 if at < 8 else 2.4
        return 2.3 - 0.02 * at * min(gain / bears, bears / gain)

    lab = Written(loss, {1: 1.0, 2: 0.9, 4: 0.1}.__getitem__, keeps=True)
    choices = Choices(
        groups=(1, 2, 4), momenta=MOMENTA, rates=RATES, last=2000, probe_iterations=16
    )
    found = chosen(lab, choices)
    assert choices.is_short(2000)
    assert found.setting == taken
    assert "its loss does not fall" in found.why


@pytest.mark.parametrize(
    ("falls", "taken"), [(0.008, Setting(8, 0.333334, 0.0333333)), (0.0, WHOLE[8])]
)
def test_a_net_whose_loss_falls_to_that_of_a_constant_output_and_no_further_gets_half_of_the_gain(
    falls: float, taken: Setting
) -> None:
    """From 3.0 to 2.3 the loss falls at any gain, then only at half of the gain. A constant output
    has 2.3 = ln 10. If no gain helps, the whole gain stays."""

    def loss(setting: Setting, at: int) -> float:
        learns = setting.step < 0.6 * WHOLE[8].step
        return 3.0 - 0.1 * at if at < 7 else 2.3 - falls * learns * (at - 7)

    lab = Written(loss, {1: 6.0, 2: 3.0, 4: 1.5, 8: 0.9}.__getitem__, keeps=True)
    choices = Choices(groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=2000)
    found = chosen(lab, choices)
    assert choices.is_short(2000)
    assert found.setting == taken
    assert ("does not go on falling" in found.why) == (falls > 0)
    assert found.spent <= choices.budget * 2000 * 0.9


@pytest.mark.parametrize(
    ("momentum", "left"), [(0.9, (0.8, 0.01)), (0.5, (0.0, 0.01)), (0.2, (0.0, 0.00625))]
)
def test_half_of_the_gain_is_less_momentum_and_then_a_lower_rate(
    momentum: float, left: tuple[float, float]
) -> None:
    setting = Setting(4, momentum, 0.01)
    less = of_gain(setting, 0.5)
    assert (less.momentum, less.base_lr) == left
    assert less.step == pytest.approx(setting.step / 2, rel=1e-4)


def test_a_net_that_bears_no_late_gradients_gets_one_group_and_the_rate_that_suits_it() -> None:
    """Several groups learn nothing, and one learns best at three times the rate."""

    def loss(setting: Setting, at: int) -> float:
        if setting.groups > 1:
            return 2.3 + 0.1 * at
        far = abs(math.log(setting.base_lr / (3 * START.base_lr)))
        return 2.3 - 0.02 * at / (1 + far)

    lab = Written(loss, {1: 1.0, 2: 0.9, 4: 0.8}.__getitem__, keeps=True)
    choices = Choices(
        groups=(1, 2, 4), momenta=MOMENTA, rates=RATES, last=2600, probe_iterations=16
    )
    found = chosen(lab, choices)
    assert choices.is_short(2600)
    assert found.setting == START.but(base_lr=3 * START.base_lr)


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        ({1: 6.0, 2: 2.7, 4: 1.85, 8: 1.6}, 2),
        ({1: 39.0, 2: 16.4, 4: 6.3, 8: 3.0}, 8),
        ({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}, 1),
    ],
)
def test_if_old_gradients_allow_short_steps_only_a_short_run_takes_the_groups_that_arrive_first(
    seconds: dict[int, float], taken: int
) -> None:
    """Milliseconds of CIFAR-10 quick on links of 10 and 1 Gbit/s, and a case in which more groups
    are no faster."""
    lab = Written(learns_slowly, seconds.__getitem__, keeps=True)
    choices = Choices(groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=2500)
    found = chosen(lab, choices, Setting(1, 0.9, 0.001))
    assert found.setting == careful(Setting(1, 0.9, 0.001), taken)
    assert found.spent == pytest.approx(
        sum(trial.cost for _, trial in found.tried if not trial.kept)
    )


def test_a_longer_run_without_budget_for_grids_does_not_take_a_rate_at_which_no_loss_falls() -> (
    None
):
    """CIFAR-10 quick for 4000 iterations on links of 1 Gbit/s: at the rate that learns alike the
    loss does not fall."""
    lab = Written(learns_slowly, {1: 41.2, 2: 18.8, 4: 7.2, 8: 4.0}.__getitem__, keeps=True)
    choices = Choices(groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=4000)
    assert not choices.is_short(4000)
    assert chosen(lab, choices, Setting(1, 0.9, 0.001)).setting == careful(
        Setting(1, 0.9, 0.001), 8
    )


def test_a_short_run_looks_again_where_a_loss_rises_by_chance() -> None:
    """Of the first twelve losses the last three are high. Of twenty-four, all others fall."""
    lab = Written(
        lambda setting, at: 3.0 if setting.groups == 4 and 8 < at < 13 else learns(at),
        PACES.__getitem__,
    )
    found = chosen(lab, SHORT)
    assert found.setting.groups == 4
    four = [len(trial.losses) for setting, trial in found.tried if setting == WHOLE[4]]
    assert four[:2] == [12, 24]


def test_a_short_run_whose_loss_has_fallen_by_then_keeps_the_rate_that_learns_alike() -> None:
    """With eight groups the loss fell. Four groups begin with that model, so one probe shows no
    further fall."""
    lab = Written(lambda setting, at: 2.3 if at < 4 else 0.65, PACES.__getitem__, keeps=True)
    found = chosen(lab, SHORT)
    assert found.setting == WHOLE[4]
    assert "does not fall" not in found.why


def test_a_short_run_takes_fewer_groups_if_a_loss_keeps_rising() -> None:
    lab = Written(
        lambda setting, at: 0.5 * at if setting.groups == 4 else learns(at), PACES.__getitem__
    )
    assert chosen(lab, SHORT).setting.groups == 2


def test_a_short_run_stays_within_its_budget_although_training_is_faster_than_probes() -> None:
    """Probes cost twice as much as training here: groups that begin together use the links at the
    same time."""
    lab = Written(
        lambda setting, at: 2.3 if at < 8 else 2.4,
        {1: 1.0, 2: 0.9, 4: 0.8, 8: 0.2}.__getitem__,
        predicted={1: 0.6, 2: 0.5, 4: 0.4, 8: 0.2 / 1.5},
    )
    for last in range(2000, 3300, 100):
        choices = Choices(
            groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=last, probe_iterations=16
        )
        assert choices.is_short(last)
        assert chosen(lab, choices).spent <= choices.budget * last * 0.2 / 1.5


def test_kept_probes_of_a_short_run_cost_nothing() -> None:
    lab = Quadratic({1: 1.0, 2: 0.6, 4: 0.4, 8: 0.3}, seed=3)
    choices = Choices(groups=(1, 2, 4, 8), momenta=MOMENTA, rates=RATES, last=1500)
    trials = Trials(lab, choices, 1500)
    found = asyncio.run(tune(trials, choices, Setting(1, 0.9, 0.01)))
    kept = [trial for _, trial in found.tried if trial.kept]
    assert trials.kept == lab.iteration == sum(len(trial.losses) for trial in kept) > 0
    assert found.spent == pytest.approx(
        sum(trial.cost for _, trial in found.tried if not trial.kept)
    )


def test_a_setting_whose_own_longer_probe_diverges_is_not_taken() -> None:
    def loss(setting: Setting, at: int) -> float:
        if setting.base_lr <= START.base_lr:
            return learns(at)
        return learns(at) if at < 30 else 100.0

    lab = Written(loss, PACES.__getitem__, keeps=True)
    found = chosen(lab, SHORT)
    assert any(trial.diverged and setting == WHOLE[4] for setting, trial in found.tried)
    assert found.setting == careful(START, 4)
    assert "but its loss does not fall (diverges)" in found.why


def test_a_short_run_that_diverges_continues_with_less_gain_and_then_with_fewer_groups() -> None:
    lab = Written(lambda setting, at: learns(at), PACES.__getitem__, keeps=True)
    trials = Trials(lab, SHORT, SHORT.last)
    found = asyncio.run(tune(trials, SHORT, START))
    taken = [found.setting]
    while found.setting != START:
        trials.fell(found.setting)
        found = instead(trials, SHORT, START, found)
        taken.append(found.setting)
    assert taken == [WHOLE[4], careful(START, 4), WHOLE[2], START]
    assert "no other setting can be compared" in found.why


FOLLOWS = Compensation(0.9, "omnivore")
ONLY_GROUPS = Choices(groups=(1, 2, 4, 8), last=600, compensation=FOLLOWS)
STEEP = {1: 6.0, 2: 3.0, 4: 1.6, 8: 0.9}  # seconds with which eight groups learn soonest


def in_groups(groups: int) -> Setting:
    return ONLY_GROUPS.in_groups(START, groups)


@pytest.mark.parametrize(
    ("last", "seconds", "taken"),
    [
        (300, STEEP, 8),
        (600, STEEP, 8),
        (2000, STEEP, 8),
        (600, {1: 6.0, 2: 2.7, 4: 1.9, 8: 1.8}, 2),
        (300, {1: 1.0, 2: 0.9, 4: 0.8, 8: 0.7}, 1),
    ],
)
def test_where_only_groups_are_chosen_a_short_run_takes_those_that_usually_learn_soonest(
    last: int, seconds: dict[int, float], taken: int
) -> None:
    lab = Written(lambda setting, at: learns(at), seconds.__getitem__, keeps=True)
    choices = dataclasses.replace(ONLY_GROUPS, last=last)
    found = chosen(lab, choices)
    assert lab.asked[0][0] == in_groups(8)  # one group would take a third of the budget
    assert found.setting == in_groups(taken)
    assert "momentum follows the groups" in found.why
    assert found.spent <= choices.budget * last * min(seconds.values())


def test_where_only_groups_are_chosen_groups_whose_loss_rises_are_not_taken() -> None:
    lab = Written(
        lambda setting, at: 1.0 + at if setting.groups == 8 else learns(at),
        STEEP.__getitem__,
        keeps=True,
    )
    assert chosen(lab, ONLY_GROUPS).setting == in_groups(4)


def test_where_only_groups_are_chosen_a_long_run_compares_them_after_equal_seconds() -> None:
    """Eight groups learn slowly here, in spite of the rule."""
    lab = Written(
        lambda setting, at: learns(at // (20 if setting.groups > 2 else 1)),
        STEEP.__getitem__,
        keeps=True,
    )
    found = chosen(lab, dataclasses.replace(ONLY_GROUPS, last=100_000))
    assert found.setting == in_groups(2)
    assert {setting.groups for setting, _ in lab.asked} == {1, 2, 4, 8}


def test_where_only_groups_are_chosen_and_training_diverges_fewer_groups_are_taken() -> None:
    lab = Written(lambda setting, at: learns(at), STEEP.__getitem__, keeps=True)
    trials = Trials(lab, ONLY_GROUPS, ONLY_GROUPS.last)
    found = asyncio.run(tune(trials, ONLY_GROUPS, START))
    trials.fell(found.setting)
    assert instead(trials, ONLY_GROUPS, START, found).setting == in_groups(4)


def test_groups_whose_momentum_the_rule_cannot_give_are_not_taken_by_it() -> None:
    choices = Choices(groups=(1, 2, 4), last=600, compensation=Compensation(0.5, "omnivore"))
    lab = Written(lambda setting, at: learns(at), {1: 9.0, 2: 3.0, 4: 1.0}.__getitem__, keeps=True)
    assert chosen(lab, choices, Setting(1, 0.5, 0.01)).setting == Setting(2, 0.0, 0.01)


def test_a_setting_with_smaller_steps_need_not_diverge_where_one_with_larger_steps_does() -> None:
    assert WHOLE[8].as_bold_as(Setting(8, 0.9, 0.01))
    assert not Setting(8, 0.9, 0.01).as_bold_as(WHOLE[8])
    assert not Setting(8, 0.2, 0.04).as_bold_as(Setting(8, 0.9, 0.01))

"""The tuner's decisions in laboratories with a known best setting: its probes, its choice, and its
cost."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roles.tuning.choices import Choices, Chosen, Setting, alike, careful, counts_up_to
from roles.tuning.search import tune
from roles.tuning.trials import ROSE, Lab, Trials
from tests.roles.laboratories import Quadratic, Written

START = Setting(1, 0.9, 0.01)
MOMENTA = (0.0, 0.3, 0.6, 0.9)
RATES = (0.01, 0.1, 1.0, 10.0)
LONG = 100_000  # iterations of a run that is long enough for any search


def chosen(
    lab: Lab, choices: Choices, now: Setting = START, before: Chosen | None = None, **run: Any
) -> Chosen:
    trials = Trials(lab, choices, run.pop("left", choices.last), **run)
    return asyncio.run(tune(trials, choices, now, before))


def alone(**what: Any) -> Choices:
    return Choices(**{"probe_iterations": 20, "last": LONG, **what})


def best_rate(best: float) -> Callable[[Setting, int], float]:
    """A loss function. A learning rate loses more the further it is from the best; ten times the
    best diverges."""

    def loss(setting: Setting, at: int) -> float:
        far = abs(math.log10(setting.base_lr / best))
        return math.nan if setting.base_lr > 5 * best and at > 3 else 1 + far - at / 1000

    return loss


@pytest.mark.parametrize("best", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0])
def test_the_cold_start_finds_the_learning_rate_even_beyond_an_edge_of_its_grid(
    best: float,
) -> None:
    found = chosen(Written(best_rate(best)), alone(rates=RATES))
    assert found.setting == START.but(base_lr=best)


def test_learning_rates_are_tried_upwards_until_one_is_worse_and_diverging_probes_are_cut() -> None:
    lab = Written(best_rate(1e-3))
    chosen(lab, alone(rates=RATES))
    # the run's own rate, 0.01, is known
    assert [setting.base_lr for setting, _ in lab.asked] == [0.01, 1e-4, 1e-3]
    lab = Written(best_rate(1e-2))
    found = chosen(lab, alone(rates=RATES))
    assert [setting.base_lr for setting, _ in lab.asked] == [0.01, 1e-4, 1e-3, 0.1]
    (cut,) = (trial for setting, trial in found.tried if setting.base_lr == 0.1)
    assert (cut.diverged, len(cut.losses), cut.seconds) == (True, 4, 5.0)


def test_a_clear_winner_ends_a_question_and_a_tie_is_asked_again_for_longer() -> None:
    def clear(setting: Setting, at: int) -> float:
        return 1.0 + setting.momentum

    lab = Written(clear)
    assert chosen(lab, alone(momenta=MOMENTA)).setting.momentum == 0.0
    assert {iterations for _, iterations in lab.asked} == {20}

    # the losses of momentum 0.3 and 0.6 differ only after 35 iterations
    def near(setting: Setting, at: int) -> float:
        return {0.0: 2.0, 0.3: 1.0 if at < 35 else 0.5, 0.6: 1.0, 0.9: 2.0}[setting.momentum]

    lab = Written(near)
    assert chosen(lab, alone(momenta=MOMENTA)).setting.momentum == 0.3
    longer = [
        (setting.momentum, iterations) for setting, iterations in lab.asked if iterations > 20
    ]
    assert longer == [(0.3, 40), (0.6, 40)]


def test_noise_of_more_than_five_percent_makes_no_winner_and_the_runs_setting_stays() -> None:
    def noisy(setting: Setting, at: int) -> float:
        return 1.0 + 0.5 * math.sin(at * (7 + 10 * setting.momentum))

    lab = Written(noisy)
    assert chosen(lab, alone(momenta=MOMENTA)).setting == START
    assert max(iterations for _, iterations in lab.asked) == 80  # prolonged twice


def test_the_same_samples_are_compared_pair_by_pair_so_that_hard_ones_add_no_noise() -> None:
    def hard(setting: Setting, at: int) -> float:
        return (1.0 + 0.9 * math.sin(at * 2.1)) * (1.0 if setting.momentum == 0.6 else 1.1)

    lab = Written(hard)
    assert chosen(lab, alone(momenta=MOMENTA)).setting.momentum == 0.6
    assert {iterations for _, iterations in lab.asked} == {20}


def test_groups_are_doubled_up_to_the_fewest_that_the_model_has_as_fast_as_any() -> None:
    seconds = {1: 4.0, 2: 2.0, 4: 1.03, 8: 1.0, 16: 1.0}

    def loss(setting: Setting, at: int) -> float:
        return 2.0 - at / 500

    lab = Written(loss, seconds.__getitem__)
    found = chosen(lab, alone(groups=counts_up_to(16), momenta=MOMENTA))
    assert (found.saturated, found.next_groups) == (4, 4)
    assert {setting.groups for setting, _ in lab.asked} == {1, 2, 4}  # no others are timed
    assert found.iteration_seconds == seconds


def test_momentum_above_the_best_of_fewer_groups_is_tried_at_a_tenth_of_the_learning_rate_only() -> (
    None
):
    def loss(setting: Setting, at: int) -> float:
        return (
            1.0
            + abs(setting.momentum - {1: 0.9, 2: 0.6, 4: 0.3}[setting.groups])
            + (setting.base_lr < 0.01)
        )

    lab = Written(loss, lambda groups: 1.0 / groups)
    chosen(lab, alone(groups=(1, 2, 4), momenta=MOMENTA, rates=(1.0,)))
    of_four = {
        (setting.momentum, setting.base_lr) for setting, _ in lab.asked if setting.groups == 4
    }
    assert {momentum for momentum, rate in of_four if rate == 0.01} == {0.0, 0.3, 0.6}
    assert {momentum for momentum, rate in of_four if rate == 0.001} == set(MOMENTA)


def rising(at: int) -> float:
    """A loss that is low first, and high again at the end of a probe of 20 iterations: still the
    lowest mean of its later half."""
    return 1.0 if at == 0 else 0.1 if at < 15 else 0.9


def test_a_setting_of_a_grid_whose_loss_rises_again_does_not_win_by_its_mean() -> None:
    def loss(setting: Setting, at: int) -> float:
        return rising(at) if setting.momentum == 0.6 else 0.8 + setting.momentum / 10

    told: list[str] = []
    choices = alone(momenta=(0.0, 0.6), prolonged=0)
    found = chosen(Written(loss), choices, tell=told.append)
    assert found.setting.momentum == 0.0
    assert any("the lowest rises again" in why for why in told)


@pytest.mark.parametrize("momenta", [(), (0.9,)])
def test_groups_whose_loss_rises_again_do_not_win_by_their_mean(
    momenta: tuple[float, ...],
) -> None:
    def loss(setting: Setting, at: int) -> float:
        return rising(at) if setting.groups == 4 else 0.8

    choices = alone(groups=(1, 4), momenta=momenta, prolonged=0)
    assert chosen(Written(loss), choices).setting == START
    before = Chosen(START, "", saturated=4, next_groups=4)
    found = chosen(Written(loss), choices, START, before)
    assert found.setting == START


def test_groups_are_compared_after_equal_seconds() -> None:
    # an iteration of four groups learns half as much, in a quarter of the time
    def loss(setting: Setting, at: int) -> float:
        return math.exp(-at / (100 * (1 if setting.groups == 1 else 2)))

    assert (
        chosen(Written(loss, lambda groups: 1.0 / groups), alone(groups=(1, 2, 4))).setting.groups
        == 4
    )
    assert chosen(Written(loss, lambda groups: 1.0), alone(groups=(1, 2, 4))).setting.groups == 1


def test_learning_of_a_slow_setting_after_the_seconds_of_the_others_does_not_count() -> None:
    def loss(setting: Setting, at: int) -> float:
        return 0.5 if setting.groups == 4 else 1.0 if at < 8 else 0.1

    assert (
        chosen(Written(loss, lambda groups: 1.0 / groups), alone(groups=(1, 4))).setting.groups == 4
    )


def test_an_epoch_halves_the_groups_while_momentum_zero_is_the_best() -> None:
    best = {16: -0.3, 8: 0.0, 4: 0.3, 2: 0.6, 1: 0.9}

    def loss(setting: Setting, at: int) -> float:
        return 1.0 + abs(setting.momentum - best[setting.groups])

    choices = alone(groups=counts_up_to(16), momenta=MOMENTA)
    before = Chosen(Setting(16, 0.3, 0.01), "", saturated=16, next_groups=16)
    lab = Written(loss)
    found = chosen(lab, choices, before.setting, before)
    assert (found.setting, found.next_groups) == (Setting(4, 0.3, 0.01), 4)
    finer = {setting.momentum for setting, _ in lab.asked if setting.groups == 16}
    assert finer == {0.0, 0.1, 0.2, 0.3}
    assert {setting.groups for setting, _ in lab.asked} == {16, 8, 4}


def test_an_epoch_keeps_the_runs_setting_if_the_winner_of_its_grid_is_clearly_worse() -> None:
    def loss(setting: Setting, at: int) -> float:
        return 1.0 if setting.groups == 1 else 2.0 + setting.momentum

    before = Chosen(START, "", saturated=2, next_groups=2)
    found = chosen(Written(loss), alone(groups=(1, 2), momenta=(0.3, 0.6, 0.9)), START, before)
    assert found.setting == START
    assert "clearly worse than the setting that the run has" in found.why


@pytest.mark.parametrize(("best", "taken"), [(1, 2), (2, 2), (4, 4), (8, 8)])
def test_where_momentum_is_given_an_epoch_compares_half_and_twice_as_many_groups(
    best: int, taken: int
) -> None:
    def loss(setting: Setting, at: int) -> float:
        return 1.0 + abs(math.log2(setting.groups / best))

    now = Setting(4, 0.5, 0.01)
    found = chosen(Written(loss), alone(groups=counts_up_to(8)), now, Chosen(now, "", 8, 4))
    assert found.setting.groups == taken


def test_the_neighbours_of_a_number_of_groups_are_possible_numbers() -> None:
    lab = Written(lambda setting, at: 1.0)
    now = Setting(12, 0.5, 0.01)
    chosen(lab, alone(groups=counts_up_to(12)), now, Chosen(now, ""))
    assert {setting.groups for setting, _ in lab.asked} == {8, 12}


@pytest.mark.parametrize("groups", [(), (1, 2, 4)])
@pytest.mark.parametrize("momenta", [(), MOMENTA])
def test_if_everything_diverges_the_run_keeps_its_setting(
    groups: tuple[int, ...], momenta: tuple[float, ...]
) -> None:
    lab = Written(lambda setting, at: math.nan)
    assert chosen(lab, alone(groups=groups, momenta=momenta, rates=RATES)).setting == START


@pytest.mark.parametrize(("left", "ends"), [(200, True), (400, True), (10_000, False)])
def test_a_search_that_its_budget_ends_takes_the_best_so_far_and_says_so(
    left: int, ends: bool
) -> None:
    told: list[str] = []
    lab = Written(lambda setting, at: 1.0 + setting.momentum - at / 1e6, beside=0.3)
    choices = Choices(momenta=MOMENTA, rates=RATES, last=left)
    found = chosen(lab, choices, tell=told.append)
    assert any("the budget does not pay for another" in why for why in told) == ends
    assert ("the budget was spent" in found.why) == ends


def test_one_group_that_alone_was_tried_is_not_reported_as_the_fewest_as_fast_as_any() -> None:
    told: list[str] = []
    lab = Written(lambda setting, at: 1.0 - at / 1e6, {1: 1.0, 2: 0.7, 4: 0.5}.__getitem__)
    found = chosen(lab, Choices(groups=(1, 2, 4), last=120), tell=told.append)
    assert [setting for setting, _ in lab.asked] == [START]
    assert any("the fewest that are as fast as any: 4" in why for why in told)
    assert found.why == "the budget was spent; no other setting can be compared: loss 1"


def test_one_group_that_is_as_fast_as_any_is_reported_in_the_singular() -> None:
    lab = Written(lambda setting, at: 1.0 - at / 1e6)
    found = chosen(lab, Choices(groups=(1, 2), last=100_000))
    assert found.why == "the best with 1 group, the fewest that are as fast as any: loss 1"


@pytest.mark.parametrize("left", [100, 200, 400, 800, 10_000, 100_000])
def test_a_search_stays_within_its_budget_and_reports_when_the_budget_ends_it(
    left: int,
) -> None:
    told: list[str] = []
    seconds = {1: 1.0, 2: 0.7, 4: 0.6}
    lab = Written(
        lambda setting, at: 1.0 + setting.momentum - at / 1e6, seconds.__getitem__, beside=0.3
    )
    choices = Choices(groups=(1, 2, 4), momenta=MOMENTA, rates=RATES, last=left)
    found = chosen(lab, choices, tell=told.append)
    assert any("budget" in why for why in told) == (left <= 800)
    fastest = min(found.iteration_seconds.values())
    # Time spent before the fastest iteration was known cannot be kept. The first probe is requested
    # before any time is known.
    spent_before = sum(
        trial.cost for setting, trial in found.tried if seconds[setting.groups] > fastest
    )
    assert found.spent <= max(0.1 * left * fastest, spent_before + 12 * fastest + 0.3)
    assert found.spent == pytest.approx(sum(trial.cost for _, trial in found.tried))


def test_a_later_search_has_the_budget_that_earlier_ones_left() -> None:
    lab = Written(lambda setting, at: 1.0)
    choices = Choices(momenta=MOMENTA, last=1000, probe_iterations=10)
    run = {"left": 500, "trained": 500.0, "known": {1: 1.0}}
    assert chosen(lab, choices, START, Chosen(START, ""), paused=85.0, **run).spent <= 15
    assert 15 < chosen(lab, choices, START, Chosen(START, ""), paused=20.0, **run).spent <= 80


def test_no_setting_is_probed_twice_for_as_long() -> None:
    lab = Quadratic(dict.fromkeys((1, 2, 4, 8), 1.0))
    found = chosen(
        lab, alone(groups=counts_up_to(8), momenta=MOMENTA, rates=RATES), Setting(1, 0.9, 0.1)
    )
    asked = [(setting, len(trial.losses)) for setting, trial in found.tried if not trial.kept]
    assert len(asked) == len(set(asked)) > 5


@settings(max_examples=15, deadline=None)
@given(
    workers=st.integers(1, 32), groups=st.booleans(), momentum=st.booleans(), rate=st.booleans(),
    base_lr=st.sampled_from([0.003, 0.05, 0.5, 5.0]), last=st.sampled_from([150, 1500, 30_000]),
    seed=st.integers(0, 1000),
)  # fmt: skip
@example(workers=10, groups=True, momentum=True, rate=True, base_lr=0.05, last=1500, seed=139)
@example(workers=5, groups=True, momentum=True, rate=True, base_lr=0.05, last=150, seed=0)
@example(workers=7, groups=True, momentum=True, rate=True, base_lr=0.003, last=30_000, seed=0)
@example(workers=7, groups=True, momentum=True, rate=True, base_lr=0.5, last=1500, seed=289)
@example(workers=9, groups=True, momentum=True, rate=True, base_lr=0.5, last=1500, seed=0)
@example(workers=5, groups=True, momentum=True, rate=False, base_lr=0.5, last=1500, seed=0)
@example(workers=21, groups=True, momentum=True, rate=False, base_lr=0.05, last=30_000, seed=10)
def test_any_search_ends_within_its_budget_probes_possible_settings_and_ends_no_worse_than_it_began(
    workers: int, groups: bool, momentum: bool, rate: bool, base_lr: float, last: int, seed: int
) -> None:
    counts = counts_up_to(workers)
    seconds = {count: 0.2 + 1.0 / count for count in counts}
    lab = Quadratic(seconds, seed=seed)
    now = Setting(1, 0.9, base_lr)
    choices = Choices(
        groups=counts if groups and workers > 1 else (), momenta=MOMENTA if momentum else (),
        rates=RATES if rate else (), last=last,
    )  # fmt: skip
    found = None
    spent = 0.0
    trained = 0.0
    for _ in range(3):  # a cold start and two epochs
        trials = Trials(
            lab, choices, last - lab.iteration, trained=trained, paused=spent,
            known=found.iteration_seconds if found else None,
        )  # fmt: skip
        found = asyncio.run(tune(trials, choices, now, found))
        spent += found.spent
        begun = max(trial.cost for _, trial in found.tried[:1]) if found.tried else 0.0
        assert spent <= max(choices.budget * (trained + (last - lab.iteration) * 1.2), begun)
        assert {setting.groups for setting, _ in lab.asked} <= set(
            counts if choices.groups else (1,)
        )
        assert momentum or all(setting.momentum == 0.9 for setting, _ in lab.asked)
        assert rate or all(setting.base_lr == base_lr for setting, _ in lab.asked)
        horizon = trials.length * seconds[now.groups]  # after equal seconds; no probe went further
        old, new = (
            lab.learnt(each, int(horizon / seconds[each.groups])) for each in (now, found.setting)
        )
        seen = not trials.kept  # a kept probe moved the model, and no probe has started from there
        assert not seen or not new[2] or old[2]
        if seen and not old[2]:
            assert fmean(new[0][len(new[0]) // 2 :]) <= 1.1 * fmean(old[0][len(old[0]) // 2 :])
        losses = lab.train(found.setting, last // 4)
        if len(losses) < last // 4 or losses[-1] > ROSE * losses[0]:
            break  # the run diverged more slowly than a probe shows, so no search begins from there
        if found.by_theory and choices.is_short(last):
            break  # as the tuner, which makes no other search then
        trained += last // 4 * seconds[found.setting.groups]
        now = found.setting


@pytest.mark.parametrize(
    ("seconds", "poor"), [({1: 1.0, 2: 1.0, 4: 1.0}, 400), ({1: 1.0, 2: 0.6, 4: 0.5}, 2250)]
)
def test_where_one_group_is_the_best_its_momenta_are_tried_too_if_the_budget_pays_for_them(
    seconds: dict[int, float], poor: int
) -> None:
    def stale(setting: Setting, at: int) -> float:
        return 1.0 + 3 * (setting.groups > 1) + abs(setting.momentum - 0.6)

    asked = {}
    for left, best in ((poor, START), (4000, START.but(momentum=0.6))):
        lab = Written(stale, lambda groups: seconds[groups])
        assert chosen(lab, alone(groups=(1, 2, 4), momenta=MOMENTA), left=left).setting == best
        asked[left] = {setting.momentum for setting, _ in lab.asked if setting.groups == 1}
    assert asked == {poor: {0.9}, 4000: {*MOMENTA}}


@given(st.integers(1, 8), st.integers(1, 32), st.floats(0.0, 0.99), st.floats(1e-6, 10.0))
def test_settings_that_learn_alike_have_the_same_mean_delay_and_gain(
    before: int, groups: int, momentum: float, rate: float
) -> None:
    """A gradient that is s updates late with momentum m takes effect 1 / (1 - m) - 1 + s updates
    late on average. Its gain is rate / (1 - m)."""
    now = Setting(before, momentum, rate)
    found = alike(now, groups)
    delay = 1 / (1 - momentum) - 1 + before - 1
    if found is None:
        assert delay < groups - 1
    else:
        assert 1 / (1 - found.momentum) - 1 + groups - 1 == pytest.approx(delay, rel=1e-3, abs=1e-3)
        assert found.base_lr / (1 - found.momentum) == pytest.approx(
            rate / (1 - momentum), rel=1e-4
        )


@given(st.integers(1, 8), st.integers(1, 32), st.floats(0.0, 0.99), st.floats(1e-6, 10.0))
def test_careful_settings_have_the_same_rate_and_total_momentum(
    before: int, groups: int, momentum: float, rate: float
) -> None:
    found = careful(Setting(before, momentum, rate), groups)
    left = (1 - momentum) / before  # 1 - total momentum (Omnivore, Theorem 1)
    assert found.base_lr == pytest.approx(rate, rel=1e-5)
    assert (1 - found.momentum) / groups == pytest.approx(min(left, 1 / groups), abs=1e-5)


def test_settings_that_do_not_learn_alike_are_not_a_tie() -> None:
    lab = Written(lambda setting, at: 1.0, {1: 1.0, 2: 0.6, 4: 0.4}.__getitem__)
    for only in ({"momenta": MOMENTA}, {"rates": RATES}, {}):
        assert chosen(lab, Choices(groups=(1, 2, 4), last=600, **only)).setting.groups == 1

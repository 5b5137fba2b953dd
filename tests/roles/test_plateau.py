"""The rate that falls after tests without improvement: decisions from given scores."""

from __future__ import annotations

import json
import math

import pytest

from roles.checkpoints.best import KEY, History, Plateau, Watch, Watched
from roles.coordination.plateau_steps import REDUCED, RULE, PlateauSteps

LOSS = Watch("loss")
ACCURACY = Watch("accuracy", rises=True)


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([3, 2, 1], 0),
        ([3, 3, 3], 1),
        ([3, 3, 3, 3, 3], 2),
        ([3, 3, 2.95, 3], 1),  # better by less than min_delta
        ([3, 3, 2, 2, 1], 0),
        ([math.nan, 3, math.nan, 3], 1),
    ],
)
def test_the_rate_falls_after_patience_tests_in_a_row_without_improvement(values, steps):
    assert Plateau(LOSS, patience=2, min_delta=0.1).reductions(values) == steps


def test_a_score_that_should_rise_counts_the_other_way():
    assert Plateau(ACCURACY, patience=1).reductions([0.1, 0.5, 0.4, 0.6]) == 1


def test_the_base_lr_falls_by_the_factor_of_all_steps_that_are_due_and_not_below_the_least():
    steps = PlateauSteps(Plateau(LOSS, patience=1, factor=0.5, least=0.2))
    assert not steps.hear(0)
    assert steps.next_base_lr(1.0) is None
    assert steps.hear(2)
    assert steps.next_base_lr(1.0) == 0.25
    assert steps.next_base_lr(0.25) is None
    assert steps.hear(3)
    assert steps.next_base_lr(0.25) == 0.2
    assert steps.hear(4)
    assert steps.next_base_lr(0.1) == 0.1  # a rate that a script set lower stays


def test_a_resumed_run_takes_only_the_steps_that_its_checkpoint_lacks():
    steps = PlateauSteps(Plateau(LOSS, patience=1, factor=0.5))
    steps.hear(2)
    steps.next_base_lr(1.0)
    facts = steps.facts()
    assert facts == {REDUCED: "2", RULE: '["loss", 1, 0.0]'}
    resumed = PlateauSteps(Plateau(LOSS, patience=1, factor=0.5))
    resumed.resume(facts, 2)
    assert not resumed.hear(2)
    assert resumed.hear(3)
    assert resumed.next_base_lr(0.25) == 0.125


@pytest.mark.parametrize(
    "rule",
    [Plateau(ACCURACY, patience=1), Plateau(LOSS, patience=3), Plateau(LOSS, 1, min_delta=0.1)],
    ids=["another score", "another patience", "another least gain"],
)
@pytest.mark.parametrize("reductions", [0, 5])
def test_a_resumed_run_with_another_rule_takes_steps_for_its_own_tests_only(rule, reductions):
    before = PlateauSteps(Plateau(LOSS, patience=1))
    before.hear(2)
    before.next_base_lr(1.0)
    for facts in (before.facts(), {}):  # {}: a run whose rate did not follow tests
        resumed = PlateauSteps(rule)
        resumed.resume(facts, reductions)
        assert not resumed.hear(reductions)
        assert resumed.hear(reductions + 1)
        assert resumed.next_base_lr(1.0) == 0.1
        again = PlateauSteps(rule)
        again.resume(resumed.facts(), reductions + 1)
        assert not again.hear(reductions + 1)
        assert again.hear(reductions + 2)


@pytest.mark.parametrize("said", ["", "-1", "two", "9" * 30])
def test_a_damaged_number_of_steps_counts_as_none(said):
    steps = PlateauSteps(Plateau(LOSS))
    facts = steps.facts()
    steps.resume(facts | {REDUCED: said}, 0)
    assert steps.facts() == facts


def test_tests_before_a_resume_that_lack_the_score_do_not_count():
    known = json.dumps([[10, {"loss": 2.0}], [20, {"loss": 2.0}], [30, {"loss": 1.0}]])
    rules = Watched(best=ACCURACY, stop=ACCURACY, patience=2, plateau=Plateau(ACCURACY, patience=1))
    history = History(rules, 30, known)
    assert (history.reductions, history.best_iteration, history.stop()) == (0, -1, {})
    assert history.hear(40, {"accuracy": 0.5}).reductions == 0
    assert history.hear(50, {"accuracy": 0.4}).reductions == 1
    assert history.best_iteration == 40
    assert not history.stop()
    verdict = history.hear(60, {"accuracy": 0.3})
    assert verdict.stop == {
        "accuracy": 0.3,
        "best": 0.5,
        "best_iteration": 40,
        "tests_since": 2,
    }


def test_the_history_of_tests_gives_the_steps_also_after_a_resume():
    watched = Watched(plateau=Plateau(LOSS, patience=1, factor=0.5))
    history = History(watched)
    verdicts = [history.hear(at, {"loss": loss}) for at, loss in ((10, 2.0), (20, 2.0), (30, 1.0))]
    assert [verdict.reductions for verdict in verdicts] == [0, 1, 1]
    facts = history.facts(20)
    assert json.loads(facts[KEY]) == [[10, {"loss": 2.0}], [20, {"loss": 2.0}]]
    resumed = History(watched, 20, facts[KEY])
    assert resumed.reductions == 1
    assert resumed.hear(20, {"loss": 2.0}).reductions == 1  # that test was heard before
    assert resumed.hear(30, {"loss": 2.0}).reductions == 2

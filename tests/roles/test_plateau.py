"""The rate that falls after tests without improvement: decisions from given scores."""

from __future__ import annotations

import json
import math

import pytest

from roles.checkpoints.best import KEY, History, Plateau, Watch, Watched
from roles.coordination.plateau_steps import REDUCED, PlateauSteps

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
    assert facts == {REDUCED: "2"}
    resumed = PlateauSteps(Plateau(LOSS, patience=1, factor=0.5))
    resumed.resume(facts)
    assert not resumed.hear(2)
    assert resumed.hear(3)
    assert resumed.next_base_lr(0.25) == 0.125


@pytest.mark.parametrize("said", ["", "-1", "two", "9" * 30])
def test_a_damaged_number_of_steps_counts_as_none(said):
    steps = PlateauSteps(Plateau(LOSS))
    steps.resume({REDUCED: said})
    assert steps.facts() == {}


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

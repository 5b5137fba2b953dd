"""The choice of the best model, and the early end of training: decisions from given scores."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from nets.files import checkpoint
from roles.checkpoints.best import FILE, KEY, History, Watch, Watched, same, taken_over

ACCURACY = Watch("accuracy", rises=True)
LOSS = Watch("loss")


def heard(
    history: History, values: list[float], name: str = "accuracy", every: int = 10
) -> list[bool]:
    """Give the history a score every ten iterations. Returns whether the run is to end, after each
    score."""
    return [bool(history.hear(every * at, {name: value}).stop) for at, value in enumerate(values)]


def test_the_run_ends_after_so_many_tests_that_are_not_better_than_the_best() -> None:
    history = History(Watched(stop=ACCURACY, patience=3))
    assert heard(history, [0.1, 0.5, 0.4, 0.5, 0.3]) == [False, False, False, False, True]
    assert history.stop() == {"accuracy": 0.3, "best": 0.5, "best_iteration": 10, "tests_since": 3}


def test_a_better_score_restarts_the_count() -> None:
    assert heard(History(Watched(stop=ACCURACY, patience=2)), [0.5, 0.4, 0.6, 0.5, 0.5]) == [
        False
    ] * 4 + [True]


@pytest.mark.parametrize(
    ("values", "ends"), [([0.50, 0.505, 0.508], True), ([0.50, 0.505, 0.511], False)]
)
def test_scores_better_by_less_than_min_delta_do_not_count_however_often(
    values: list[float], ends: bool
) -> None:
    history = History(Watched(stop=ACCURACY, patience=2, min_delta=0.01))
    assert heard(history, values)[-1] == ends


def test_a_loss_is_better_when_it_is_smaller() -> None:
    assert heard(History(Watched(stop=LOSS, patience=1)), [2.0, 1.0, 1.5], "loss") == [
        False,
        False,
        True,
    ]


def test_nan_is_never_better() -> None:
    assert heard(
        History(Watched(stop=LOSS, patience=2)), [math.nan, 2.0, math.nan, math.nan], "loss"
    )[-1]
    assert not any(heard(History(Watched(stop=LOSS, patience=1)), [math.nan] * 5, "loss")), (
        "NaN must never become the best"
    )


def test_the_first_of_equal_models_is_the_best() -> None:
    history = History(Watched(best=ACCURACY))
    assert [
        history.hear(at, {"accuracy": value}).best
        for at, value in enumerate([0.3, 0.3, 0.4, 0.4, 0.2])
    ] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert (history.best_iteration, history.best_value) == (2, 0.4)


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_resumed_run_decides_as_the_unbroken_one(cut: int) -> None:
    watched = Watched(best=ACCURACY, stop=LOSS, patience=3, min_delta=0.05)
    scores = [
        {"accuracy": a, "loss": b}
        for a, b in zip([1, 4, 2, 6, 5, 4, 7], [9, 7, 6.98, 6.5, 6.5, 6.49, 6.48], strict=True)
    ]
    whole = History(watched)
    expected = [whole.hear(at, each) for at, each in enumerate(scores)]
    first = History(watched)
    for at, each in enumerate(scores[:cut]):
        first.hear(at, each)
    rest = History(watched, cut - 1, first.facts(cut - 1)[KEY])
    assert rest.hear(cut - 1, scores[cut - 1]).stop == {}, (
        "the run before has already counted this test"
    )
    assert [rest.hear(cut + at, each) for at, each in enumerate(scores[cut:])] == expected[cut:]


def test_the_first_test_of_a_resumed_run_does_not_count_if_the_unbroken_run_has_none_there() -> (
    None
):
    watched = Watched(best=ACCURACY, stop=ACCURACY, patience=1)
    first = History(watched)
    first.hear(4, {"accuracy": 0.5})
    rest = History(watched, 6, first.facts(6)[KEY])
    assert rest.hear(6, {"accuracy": 0.4}).stop == {}
    assert not rest.hear(6, {"accuracy": 0.6}).best
    assert rest.facts(6) == first.facts(6)


def test_scores_after_the_model_that_training_returns_to_are_forgotten() -> None:
    history = History(Watched(best=ACCURACY))
    for at, value in ((10, 0.4), (20, 0.9), (30, 0.95)):
        history.hear(at, {"accuracy": value})
    assert json.loads(history.facts(20)[KEY]) == [[10, {"accuracy": 0.4}], [20, {"accuracy": 0.9}]]
    assert history.hear(20, {"accuracy": 0.5}).best
    assert history.best_value == 0.5


def test_without_a_watched_score_there_are_no_decisions() -> None:
    history = History(Watched())
    assert not history.hear(10, {"accuracy": 1.0}).best
    assert history.facts(10) == {}


@pytest.mark.parametrize("known", ["", "no json", "[1, 2]", '{"a": 1}', "[[1]]"])
def test_metadata_of_other_programs_do_not_count_as_history(known: str) -> None:
    assert History(Watched(best=ACCURACY), 5, known).best_iteration == -1


def test_the_best_model_is_taken_over_if_it_belongs_to_the_watched_score(tmp_path: Path) -> None:
    before = tmp_path / "before"
    here = tmp_path / "here"
    before.mkdir()
    here.mkdir()
    checkpoint.save(before / FILE, {"a.0": np.arange(3.0)}, {"iteration": "40"})
    resumed = before / "checkpoint-0000050.safetensors"
    assert not taken_over(resumed, 30, here)
    assert not (here / FILE).exists()
    assert taken_over(resumed, 40, here)
    assert checkpoint.load(here / FILE)[1]["iteration"] == "40"
    same(before / FILE, here / FILE)
    assert [path.name for path in here.iterdir()] == [FILE]

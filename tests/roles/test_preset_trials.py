"""Trials of presets whose groups are chosen too (`roles.choosing.trial`): the candidates that are
tried, and how the choices of their tuners count."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.choosing.trial import LEARNING_SECONDS, LearningTrial, PresetTrial
from roles.coordination.coordinator import CoordinatorOptions
from roles.tuning.tuner import TunerOptions
from tests.roles.test_auto_together import chosen, cluster, of_event


def lead_of(trial: PresetTrial) -> CoordinatorOptions:
    """The options of the coordinator of a trial."""
    topology = trial.topology
    found = next(actor.options for actor in topology.actors if actor.name == topology.lead)
    assert isinstance(found, CoordinatorOptions)
    return found


def test_where_momentum_is_given_a_trial_has_the_groups_by_which_its_preset_was_compared(
    tmp_path: Path,
) -> None:
    found = chosen(cluster(tmp_path, train="momentum = 0.5\n"))
    trial = found.trials[0]
    assert type(trial) is PresetTrial
    assert len(lead_of(trial).groups) == trial.counted.groups == 4
    assert lead_of(trial).job.solver_spec.momentum == 0.0  # does not diverge
    assert not any(isinstance(actor.options, TunerOptions) for actor in trial.topology.actors)
    trial.heard("progress", {"iteration": 1}, 0.0)
    assert trial.ended("")[1]["groups"] == 4


def test_a_trial_of_groups_that_theory_supposes_has_the_tuner_of_the_run_and_saves_nothing(
    tmp_path: Path,
) -> None:
    found = chosen(cluster(tmp_path))
    trial = found.trials[0]
    assert isinstance(trial, LearningTrial)
    lead = lead_of(trial)
    assert len(lead.groups) == 1
    assert (lead.timetable.tests, lead.timetable.snapshot_interval) == ((), 0)
    tuners = [
        actor.options for actor in trial.topology.actors if isinstance(actor.options, TunerOptions)
    ]
    assert [tuner.saves for tuner in tuners] == [False]


def test_after_a_preset_with_several_groups_the_fastest_with_one_group_is_tried(
    tmp_path: Path,
) -> None:
    found = chosen(cluster(tmp_path))
    names = [fields["preset"] for name, fields in found.told if name == "candidate"]
    assert names[:2] == ["omnivore", "local-fc-shards"]  # both with four groups
    first, second = found.trials
    assert (first.name, second.name) == ("omnivore", "single")
    assert type(second) is PresetTrial
    assert "omnivore with 4 groups and single " in of_event(found)["why"]


def tuned(trial: PresetTrial, seconds: float, **setting: float) -> None:
    """The trial's tuner chooses this setting, with iterations that take `seconds`."""
    assert not trial.heard("tuning", {"why": "it looks"}, 1.0)
    assert trial.heard("tuning", {**setting, "predicted_seconds": seconds}, 2.0)
    event, fields = trial.ended("")
    assert (event, fields["measured_seconds"]) == ("trial", seconds)


def timed(trial: PresetTrial, seconds: float) -> None:
    """Iterations of the trial take `seconds`."""
    for done in range(1, 60):
        trial.heard("progress", {"iteration": done}, done * seconds)
    trial.ended("")


@pytest.mark.parametrize(
    ("setting", "best", "why"),
    [
        (
            {"groups": 4, "momentum": 0.85, "base_lr": 0.045},
            "omnivore",
            "measured 10 ms an iteration with 4 groups, single 20 ms; the run begins",
        ),
        (
            {"groups": 4, "momentum": 0.6, "base_lr": 0.03},
            "single",
            "measured 20 ms an iteration, omnivore with 4 groups 10 ms x 2.83; 1 worker is",
        ),
    ],
)
def test_groups_count_by_the_gain_that_the_tuner_of_the_trial_has_found(
    tmp_path: Path, setting: dict[str, float], best: str, why: str
) -> None:
    found = chosen(cluster(tmp_path))
    omnivore, single = found.trials
    tuned(omnivore, 0.01, **setting)
    timed(single, 0.02)
    fields = found.chosen().why[1]
    assert fields["preset"] == best
    assert fields["why"].startswith(why)


def test_a_tuner_that_chooses_nothing_in_time_counts_its_groups_with_little_gain(
    tmp_path: Path,
) -> None:
    found = chosen(cluster(tmp_path))
    trial, single = found.trials
    assert isinstance(trial, LearningTrial)
    assert not trial.heard("progress", {"iteration": 1}, 5.0)
    assert not trial.heard("progress", {"iteration": 2}, 4.9 + LEARNING_SECONDS)
    assert trial.heard("progress", {"iteration": 3}, 5.0 + LEARNING_SECONDS)
    assert (trial.seconds, trial.iterations) == (trial.predicted, pytest.approx(4**0.75))
    assert "measured_seconds" not in trial.ended("")[1]
    assert trial.ended("")[1]["learns"] == (
        "its tuner chose nothing within 30 s; usually 2.83 of its iterations are worth one of one "
        "group"
    )
    assert isinstance(single, PresetTrial)
    timed(single, 9.0)
    assert found.chosen().why[1]["why"].startswith("predicted ")

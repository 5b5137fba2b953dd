"""The benchmark of groups, momentum and rate up to a target loss. Its runs are small: two workers
and the digits that ship with Convoy. Its verdicts are tested with trials that are made up."""

from __future__ import annotations

import itertools
import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roles
from benchmarks.helpers.report import Record
from benchmarks.presets.runs import Data
from benchmarks.tuning import pictures as tuning_pictures
from benchmarks.tuning import runs as tuning_runs
from benchmarks.tuning.kept import FILE, Kept, Make, Trials, on_virtual_clock
from benchmarks.tuning.lesion import best_of, selections
from benchmarks.tuning.runs import Examination, Reached, Setting, Task, Times, around, lenet, trial
from benchmarks.tuning.tradeoff import compare
from benchmarks.tuning.tradeoff_real import Follow, in_processes
from benchmarks.tuning.virtual import learn
from runtime import Event

TIMES: Times = {
    "conv_compute/forward conv1": (0.01, 0.06),
    "conv_compute/backward conv1": (0.01, 0.06),
    "fc_server/fc TRAIN": (0.002, 0.06),
}
SEEDS = 2
MOMENTA = (0.0, 0.9)
FACTORS = (1.0, 10.0)


@pytest.fixture
def digits() -> Iterator[Data]:
    data = Data(None, None)
    yield data
    data._folder.cleanup()


@pytest.mark.slow
def test_two_groups_take_half_the_time_of_one_member(tmp_path: Path, digits: Data) -> None:
    task = lenet(digits, tmp_path, 200, 0.9)
    one, two = (trial(task, 2, Setting(groups, 0.6, 0.03), TIMES, rate=1e9) for groups in (1, 2))
    # each computes half of the rows, then the FC phase follows
    assert one.pace == pytest.approx(0.012, rel=0.15)
    assert two.pace < 0.012
    assert one.iterations is not None and one.seconds is not None
    assert one.iterations % tuning_runs.EACH == 0
    assert one.seconds == pytest.approx(one.iterations * one.pace, rel=0.1)


def test_a_run_that_diverges_reports_it(tmp_path: Path, digits: Data) -> None:
    found = trial(lenet(digits, tmp_path, 60, 0.5), 2, Setting(2, 0.9, 1e6), TIMES, rate=1e9)
    assert (found.diverged, found.iterations, found.took) == (True, None, math.inf)


def test_a_run_ends_behind_its_rival_and_one_to_a_loss_when_the_mean_of_its_window_is_there(
    tmp_path: Path, digits: Data
) -> None:
    task = lenet(digits, tmp_path, 60, 0.5)
    cut = trial(task, 2, Setting(1, 0.0, 0.01), TIMES, rate=1e9, rival=Reached(10, 0.1))
    assert (len(cut.way), cut.seconds, cut.against) == (1, None, 0.1)
    to_a_loss = Task("LeNet", task.options, 60, loss=10.0)
    assert (
        trial(to_a_loss, 2, Setting(1, 0.0, 0.01), TIMES, rate=1e9).iterations == tuning_runs.WINDOW
    )


def test_a_kept_probe_does_not_count_as_seconds_in_which_the_tuner_held_the_run(
    tmp_path: Path, digits: Data
) -> None:
    found = trial(
        Task("LeNet", lenet(digits, tmp_path, 1000, 0.5).options, 1000, loss=1.0),
        2,
        None,
        TIMES,
        rate=1e9,
    )
    (choice,) = found.chosen
    trained = choice["iteration"] * found.pace  # all these iterations ran in probes
    assert trained > 0
    # groups that begin at once are in each other's way at first
    assert 0.9 * trained <= found.kept <= 1.5 * trained
    assert found.held == pytest.approx(choice["seconds"] - found.kept)


def test_the_model_is_tested_from_outside_as_the_run_itself_tests_it(
    tmp_path: Path, digits: Data
) -> None:
    task = lenet(digits, tmp_path, 11, 0.5, "test_interval: 10 test_iter: 3")
    options = {
        **task.options,
        "max_iter": 11,
        "strategy": {"preset": "omnivore", "workers": 2, "groups": 2},
    }
    looked = []
    told = []

    def watch(simulation: Any, event: str, fields: dict[str, Any]) -> None:
        if event == "progress":
            looked.append(outside[0].accuracy())
        elif event == "test":
            told.append((len(looked), fields["accuracy"]))

    outside: list[Examination] = []
    learn(
        roles.training(options),
        lambda *of: 0.01,
        watch,
        prepared=lambda actors: outside.append(Examination(actors)),
    )
    assert told
    assert [accuracy for _, accuracy in told] == pytest.approx(
        [looked[at - 1] for at, _ in told], abs=1e-6
    )
    assert len(set(looked)) > 1


@pytest.mark.parametrize("task", ["LeNet", "CIFAR-10 quick"])
def test_the_kept_trials_have_their_service_times_in_the_same_file(
    task: str,
) -> None:
    kept = Kept(FILE)
    assert "fc_server/fc TRAIN" in kept.get(f"{task}, omnivore: service times")
    assert all(" on " in origin for origin in kept.origins)


@pytest.mark.slow
def test_service_times_are_measured_in_processes_without_the_time_before_the_first_iteration(
    tmp_path: Path, digits: Data
) -> None:
    found = tuning_runs.measured(lenet(digits, tmp_path, 60, 0.5), iterations=20)
    assert {
        "conv_compute/forward conv1",
        "fc_server/fc TRAIN",
        "conv_model/update conv2",
    } <= found.keys()
    assert not any(key.endswith("/build") for key in found)
    assert all(
        seconds > 0 and variation >= tuning_runs.SPREAD for seconds, variation in found.values()
    )


@pytest.mark.slow
def test_the_tuner_is_compared_with_the_best_of_a_grid(
    tmp_path: Path, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("r")
    monkeypatch.setattr("benchmarks.tuning.kept.measured", lambda task, preset: TIMES)
    trials = on_virtual_clock(lenet(digits, tmp_path, 300, 0.9), 2, 1.0, Kept())
    compare(record, trials, (0.3,), (3.0,), 1)
    names = [row[0] for row in record.tables[0].rows]
    assert (names[:2], names[3:]) == (["1", "2"], ["1, usual", "2, usual", "auto"])
    # probes may be kept as part of the run
    assert any(re.match(r"auto, seed 1, iteration \d+: ", note) for note in record.notes)


@pytest.mark.slow
def test_a_run_in_processes_is_followed_to_its_target(tmp_path: Path, digits: Data) -> None:
    task = lenet(digits, tmp_path, 300, 0.8, "test_interval: 25 test_iter: 3")
    found = in_processes(task, 2).of(Setting(2, 0.3, 0.03))
    assert found.iterations is not None and found.iterations % 25 == 0
    assert found.seconds is not None
    assert 0 < found.pace < found.seconds


def test_in_processes_seconds_are_counted_from_the_beginning_without_tests() -> None:
    def event(time: float, name: str, **fields: float) -> Event:
        return Event(time, "coordinator", name, fields)

    follow = Follow(Task("t", {}, 10, accuracy=0.9), limit=100.0)
    for each in (
        event(5.0, "began"),
        event(7.0, "progress", loss=1.0),
        event(9.0, "test", accuracy=0.5),
        event(10.0, "progress", loss=1.0),
    ):
        assert not follow.over(each)
    assert follow.over(event(12.0, "test", accuracy=0.95))
    assert (follow.found.iterations, follow.found.seconds, follow.found.pace) == (2, 3.0, 1.0)
    late = Follow(Task("t", {}, 10, accuracy=0.9), limit=1.0)
    assert not late.over(event(5.0, "began"))
    assert late.over(event(7.0, "progress", loss=1.0))
    assert late.found.cut == 2.0


# -- trials that are made up

TASK = Task("t", {}, 1000, accuracy=0.9)


def seconds_of(setting: Setting, preset: str = "omnivore") -> float:
    """Seconds to the target of a made-up trial. The best setting is two groups at momentum 0 and
    rate 0.1. With an unmerged FC phase all settings take three times as long."""
    worse = abs(setting.groups - 2) + setting.momentum + abs(math.log10(setting.base_lr) + 1)
    return (10 + worse) * (1 if preset == "omnivore" else 3)


def made_up(auto: float = 11.0, held: float = 1.0) -> Make:
    def make(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        if setting is None:
            chosen = {
                "iteration": 0,
                "groups": 2,
                "momentum": 0.0,
                "base_lr": 0.1,
                "probes": 9,
                "seconds": held,
            }
            return Reached(
                100, auto, 0.1, events=[{"why": "because"}, {**chosen, "why": "clearly"}]
            )
        took = seconds_of(setting, preset)
        if (setting.momentum, setting.base_lr, preset) == (0.9, 0.01, "mxnet-async"):
            return Reached(diverged=True, pace=0.1)
        if rival is not None and took > rival.took:
            return Reached(cut=rival.took, against=rival.took, pace=0.1)
        return Reached(100, took, took / 100)

    return make


def test_a_run_is_behind_when_its_rival_has_arrived_or_its_loss_is_far_above_at_that_moment() -> (
    None
):
    rival = Reached(400, 4.0, way=[(1.0, 0.8), (2.0, 0.4), (3.0, 0.3), (4.0, 0.2)])
    for at, loss, behind in (
        (0.9, 9.0, False),
        (1.0, 1.5, False),
        (1.0, 1.7, True),
        (2.0, 0.55, False),
        (2.0, 0.65, True),
        (3.9, 0.1, False),
        (4.1, 0.1, True),
        (2.0, math.nan, True),
    ):
        assert Reached(way=[(at, loss)]).behind(rival) == behind, (at, loss)
    assert not Reached().behind(rival)


def test_of_a_grid_the_first_is_found_in_any_order_and_nothing_is_tried_longer_than_it_took() -> (
    None
):
    points = [Setting(g, m, r) for g, m, r in itertools.product((1, 2), MOMENTA, (0.1, 0.01))]
    for seed in range(20):
        # the random numbers shuffle a simulation only
        shuffled = random.Random(seed).sample(points, len(points))
        found = Trials(TASK, 2, "here", made_up(), Kept()).first_of(shuffled)
        assert min(found, key=lambda point: found[point].took) == Setting(2, 0.0, 0.1)
        assert all(trial.cut is None or trial.cut >= 10 for trial in found.values())
        assert sum(trial.cut is not None for trial in found.values()) >= 1


def test_the_grid_around_a_point_begins_there_and_goes_outward() -> None:
    found = list(around(Setting(4, 0.6, 0.1), (0.0, 0.3, 0.6, 0.9), (0.01, 0.03, 0.1)))
    assert found[0] == Setting(4, 0.6, 0.1)
    assert set(found[1:4]) == {Setting(4, 0.3, 0.1), Setting(4, 0.9, 0.1), Setting(4, 0.6, 0.03)}
    assert len(set(found)) == 12
    assert next(around(Setting(4, 0.9, 0.01), (0.0, 0.3), (0.03, 0.1))) == Setting(4, 0.3, 0.03)


def test_trials_are_made_once_even_after_a_run_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "trials.jsonl"
    point = Setting(2, 0.0, 0.1)
    made: list[float] = []

    def counted(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        made.append(math.inf if rival is None else rival.took)
        return made_up()(setting, seed, rival, preset)

    Trials(TASK, 2, "here", counted, Kept(file)).of(point, rival=Reached(10, 5.0))
    with file.open("a") as lines:
        lines.write('{"name": "half a li')
    again = Trials(TASK, 2, "here", counted, Kept(file))
    assert again.of(point, rival=Reached(10, 4.0)).cut == 5.0
    assert made == [5.0]
    assert again.of(point, rival=Reached(10, 6.0)).cut == 6.0
    assert made == [5.0, 6.0]
    assert again.of(point).seconds == 10.0
    assert again.of(point).seconds == 10.0
    assert made == [5.0, 6.0, math.inf]
    assert Trials(TASK, 4, "here", counted, Kept(file)).of(point).seconds == 10.0
    assert len(made) == 4


def test_a_line_after_a_truncated_line_is_read(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    file.write_text('{"name": "half a li')
    Kept(file).put("whole", 1)
    assert Kept(file).get("whole") == 1


@pytest.mark.parametrize(
    ("auto", "held", "missed"),
    [
        (11.0, 0.6, []),
        (13.0, 0.6, ["auto took 13 s, at most 1.15 times the 10 s of the best point"]),
        (11.0, 1.1, ["auto was held for 10.0% of its seconds, at most 6%"]),
        (math.inf, 0.6, ["auto did not always reach"]),
    ],
)
def test_a_tuner_that_is_late_or_spends_too_much_fails(
    auto: float, held: float, missed: list[str]
) -> None:
    record = Record("r")
    compare(record, Trials(TASK, 2, "here", made_up(auto, held), Kept()), MOMENTA, FACTORS, SEEDS)
    assert record.status == ("failed" if missed else "running")
    for text in missed:
        assert sum(text in note for note in record.notes) == 1
    rows = record.tables[0].rows
    assert [row[0] for row in rows] == ["1", "2", "2, best", "1, usual", "2, usual", "auto"]
    assert rows[1][:3] == ["2", 0.0, 0.1]
    assert record.facts["auto / best point"] == auto / 10


def test_the_lesion_study_adds_one_choice_a_row_and_its_picture_shows_missed_targets() -> None:
    record = Record("r")
    selections(record, Trials(TASK, 4, "here", made_up(), Kept()), MOMENTA, FACTORS, (0.1,), SEEDS)
    rows = record.tables[0].rows
    assert [row[0] for row in rows] == [
        "nothing",
        "the rate",
        "where the FC phase is",
        "momentum",
        "groups",
    ]
    assert rows[0][-1] == "2 of 2 diverged"
    seconds = [row[-1] for row in rows[1:]]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == 10.0
    words = texts(tuning_pictures.lesion(rows, "title & more"))
    assert {"2 of 2 diverged", "title & more", "10 s", "+ groups"} <= words


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ({}, 0.1),
        ({(0.1, 1): "late"}, 0.2),
        ({(0.1, 2): "late"}, 0.2),
        ({(0.1, 2): "late", (0.2, 2): "late", (0.3, 1): "late"}, 0.1),
        ({(0.1, 1): "diverged", (0.2, 1): "late", (0.3, 1): "late"}, 0.2),
    ],
)
def test_the_best_point_reaches_the_target_with_each_seed_or_else_does_not_diverge(
    lost: dict[tuple[float, int], str], expected: float
) -> None:
    def make(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        assert setting is not None
        if how := lost.get((setting.base_lr, seed)):
            return Reached(diverged=how == "diverged", pace=0.1)
        return Reached(10, 100 * setting.base_lr, 0.1)

    points = [Setting(4, 0.9, rate) for rate in (0.1, 0.2, 0.3)]
    best, runs = best_of(Trials(TASK, 4, "here", make, Kept()), points, 2, "omnivore")
    assert best.base_lr == expected
    assert len(runs.runs) == 2


def test_the_trade_off_picture_has_a_panel_for_each_efficiency_and_names_missed_targets() -> None:
    rows = [["1", 0.9, 0.1, 20.0, 500.0, 10.0], ["2", 0.6, 0.1, 10.0, 600.0, 6.0]]
    rows += [
        ["4", 0.0, 0.1, 9.0, "5 of 5 not reached", "5 of 5 not reached"],
        ["auto", "", "", 9.0, 700.0, 6.5],
    ]
    words = texts(tuning_pictures.tradeoff(rows, "LeNet"))
    assert {
        "hardware efficiency",
        "statistical efficiency",
        "both",
        "4: 5 of 5 not reached",
        "1: 20 ms an iteration",
    } <= words
    assert not any("700" in word for word in words)


def texts(drawn: str) -> set[str]:
    # the XML was written by the benchmark itself
    return {element.text or "" for element in ET.fromstring(drawn).iter()}

"""The benchmark of groups, momentum and rate up to a target, in small: the digits that ship, two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import tuning_runs
from benchmarks.preset_runs import Data
from benchmarks.report import Record
from benchmarks.tuning_runs import Setting, Times, lenet, trial
from benchmarks.tuning_tradeoff import compare

TIMES: Times = {
    "conv_compute/forward conv1": (0.01, 0.06),
    "conv_compute/backward conv1": (0.01, 0.06),
    "fc_server/fc TRAIN": (0.002, 0.06),
    "fc_server/fc TEST": (5.0, 0.06),
}


@pytest.fixture
def digits() -> Iterator[Data]:
    data = Data(None, None)
    yield data
    data._folder.cleanup()


@pytest.mark.slow
def test_two_groups_take_half_the_time_of_one_member_and_targets_are_watched_for_nothing(
    tmp_path: Path, digits: Data
) -> None:
    task = lenet(digits, tmp_path, 60, 0.5)
    one, two = (trial(task, 2, Setting(groups, 0.6, 0.03), TIMES, rate=1e9) for groups in (1, 2))
    assert (one.iterations, two.iterations) == (50, 50)
    assert one.pace == pytest.approx(0.012, rel=0.15)  # half the rows each, then the FC phase
    assert two.pace < 0.012
    assert one.seconds is not None
    assert one.seconds < 50 * 0.012 * 1.2


def test_a_run_that_diverges_says_so(tmp_path: Path, digits: Data) -> None:
    found = trial(lenet(digits, tmp_path, 60, 0.5), 2, Setting(2, 0.9, 1e6), TIMES, rate=1e9)
    assert (found.diverged, found.iterations) == (True, None)


@pytest.mark.slow
def test_the_tuner_stands_beside_the_best_of_a_grid(
    tmp_path: Path, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("r")
    monkeypatch.setattr("benchmarks.tuning_tradeoff.measured", lambda task: TIMES)
    compare(record, lenet(digits, tmp_path, 300, 0.9), [Setting(2, 0.3, 0.03)])
    (table,) = record.tables
    assert [row[0] for row in table.rows[:3]] == ["2", "1, usual", "2, usual"]
    assert str(table.rows[3][0]).startswith("auto")
    assert any(note.startswith("for the tuner the run was held for") for note in record.notes)


@pytest.mark.slow
def test_service_times_are_measured_in_processes_without_what_comes_before_the_first_iteration(
    tmp_path: Path, digits: Data
) -> None:
    found = tuning_runs.measured(lenet(digits, tmp_path, 60, 0.5), iterations=20)
    assert {"conv_compute/forward conv1", "fc_server/fc TRAIN", "conv_model/update conv2"} <= found.keys()
    assert not any(key.endswith("/build") for key in found)
    assert all(seconds > 0 and variation >= tuning_runs.SPREAD for seconds, variation in found.values())

"""The grid of islands next to other presets, and homes that are drawn."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.islands import grid, homes, real_time
from benchmarks.islands.grid import MISSING, REPLICAS, Grid, Where, islands, seconds_to
from benchmarks.islands.homes import FASTEST, Emulated, drawn
from benchmarks.islands.runs import TESTS, Ran
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept

DIGITS = Where("lenet")


@pytest.fixture
def digits() -> Iterator[Data]:
    """The digits that ship, and a folder that is removed afterwards."""
    data = Data(None, None)
    yield data
    data._folder.cleanup()


@pytest.mark.parametrize(
    ("target", "seconds"),
    [(0.80, 100.0), (0.90, 100.0), (0.92, 200.0), (0.94, 400.0), (0.99, math.inf)],
)
def test_the_time_to_a_target_lies_between_those_of_two_runs(target: float, seconds: float) -> None:
    assert seconds_to(target, [(400.0, 0.94), (100.0, 0.90)]) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("target", "seconds"), [(0.60, 70.0), (0.70, 100.0), (0.75, 141.42), (0.80, 200.0)]
)
def test_a_run_that_misses_the_target_in_the_whole_length_is_followed_by_a_longer_one(
    digits: Data, target: float, seconds: float
) -> None:
    kept = Kept()
    setting = islands("ours")
    whole = DIGITS.iterations
    for length, found in {
        round(grid.SHORTER * whole): Ran(accuracy=0.60, seconds=70.0),
        whole: Ran(accuracy=0.70, seconds=100.0),
        grid.EIGHT_EPOCHS["lenet"]: Ran(accuracy=0.80, seconds=200.0),
    }.items():
        kept.put(f"{setting} on {DIGITS}, {digits.digits_name}, {length}, seed 1", asdict(found))
    reached = Grid(digits, kept, 0.0).reaches(DIGITS, setting, target)
    assert reached == pytest.approx(seconds, abs=0.01)


def test_runs_become_shorter_until_one_misses_the_target(digits: Data) -> None:
    kept = Kept()
    setting = islands("ours")
    found = [Ran(accuracy=each, seconds=100 * each) for each in (0.9, 0.8, 0.7, 0.6)]
    for length, ran in zip(
        [DIGITS.iterations, *grid.shorter(DIGITS.iterations)], found, strict=True
    ):
        kept.put(f"{setting} on {DIGITS}, {digits.digits_name}, {length}, seed 1", asdict(ran))
    assert Grid(digits, kept, 0.0).reaches(DIGITS, setting, 0.75) == pytest.approx(74.83, abs=0.01)


def test_settings_of_islands_with_different_keys_have_different_names() -> None:
    keys = [{}, {"period": 8}, {"outer_momentum": 0.0}, {"outer_momentum": 0.0, "grace": 0.05}]
    assert len({str(islands(rate=2, **each)) for each in keys}) == len(keys)


def test_a_trial_of_the_grid_is_made_once_and_tested_while_it_runs(
    tmp_path: Path, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trials.jsonl"
    first = Grid(digits, Kept(file), 60.0).ran(DIGITS, islands(rate=2), 1, 40)
    assert first is not None
    assert first.gains > 2
    assert first.megabytes > 0
    assert len(first.way) == TESTS
    assert all(0 <= accuracy <= 1 for _, accuracy in first.way)
    monkeypatch.setattr(grid, "trained", lambda *_, **__: pytest.fail("made again"))
    again = Grid(digits, Kept(file), 60.0).ran(DIGITS, islands(rate=2), 1, 40)
    assert again is not None
    assert (again.accuracy, again.seconds) == (first.accuracy, first.seconds)


def test_the_fastest_machine_alone_is_one_trial_whatever_the_links_and_the_other_machines(
    tmp_path: Path, digits: Data
) -> None:
    trials = Grid(digits, Kept(tmp_path / "trials.jsonl"), 60.0)
    alone = grid.FIRST["alone"][0]
    first = trials.ran(DIGITS, alone, 1, 20)
    assert first is not None
    assert first.seconds == pytest.approx(20 * grid.FASTEST)
    trials.ran(Where("lenet", "1:1:2:20", 200), alone, 1, 20)
    names = [line for line in (tmp_path / "trials.jsonl").read_text().splitlines() if line]
    assert len(names) == 1


def test_replicas_on_a_slow_link_take_many_times_as_long_as_one_machine(digits: Data) -> None:
    ran = Grid(digits, Kept(), 60.0).ran(DIGITS, REPLICAS, 1, 4)
    assert ran is not None
    assert ran.seconds > 5 * 4 * grid.FASTEST


def test_without_time_and_without_trials_the_tables_say_that_nothing_is_measured(
    tmp_path: Path, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "Data", lambda *_: digits)
    given = argparse.Namespace(
        mnist=None, cifar=None, hours=0.0, trials=tmp_path / "none.jsonl", presets=grid.PRESETS
    )
    record = grid.measured(given)
    cells = {str(cell) for row in record.tables[-1].rows for cell in row[2:]}
    assert cells == {MISSING}
    assert any(MISSING in note for note in record.notes)


def test_without_the_folder_of_cifar_10_its_trials_are_not_made(digits: Data) -> None:
    assert Grid(digits, Kept(), 60.0).ran(grid.JUDGED[0], islands(), 1, 4) is None


def test_the_fastest_machine_of_a_home_comes_first_and_alone_counts_as_one_process() -> None:
    home = drawn(3)
    times = [one.seconds[0] for one in home]
    assert times == sorted(times)
    assert Emulated(Kept()).value(3, home[:1]) == pytest.approx(1 / FASTEST)


def test_homes_are_judged_by_emulated_runs_that_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "ITERATIONS", 400)
    file = tmp_path / "homes.jsonl"
    given = argparse.Namespace(homes=2, left_out=1, kept_homes=file)
    first = homes.measured(given)
    monkeypatch.setattr(homes, "emulated", lambda *_: pytest.fail("made again"))
    again = homes.measured(given)
    assert isinstance(again, Record)
    assert again.tables[-1].rows == first.tables[-1].rows


def test_the_pace_of_emulated_islands_is_nearly_the_sum_of_their_speeds(tmp_path: Path) -> None:
    whole = sum(32 / seconds for seconds in real_time.SECONDS)
    assert 0.85 * whole < real_time._virtual(400, tmp_path) <= whole


@pytest.mark.slow
def test_islands_run_in_real_time_on_machines_with_delayed_cables() -> None:
    record = real_time.measured(argparse.Namespace(real_iterations=200, ddp=None))
    if record.status == "skipped":
        pytest.skip(record.notes[-1])
    assert [row[0] for row in record.tables[0].rows] == ["virtual", "real"]
    assert all(row[1] > 0 for row in record.tables[0].rows)

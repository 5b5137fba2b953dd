"""The run directory: no two runs share one, and its journal can be read while it grows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runtime.errors import LaunchError
from runtime.report import remaking
from runtime.report.rundir import RunDirectory
from tests.helpers.beats import beat


def test_runs_of_one_name_in_one_second_get_separate_directories(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / "deep" / "runs", "digits") for _ in range(5)]
    assert len({run.path for run in runs}) == 5
    assert all(run.path.is_dir() and "-digits" in run.path.name for run in runs)
    for run in runs:
        run.close()


def test_the_journal_is_one_json_object_a_line_readable_while_the_run_goes_on(
    tmp_path: Path,
) -> None:
    run = RunDirectory(tmp_path, "digits")
    run.event("coordinator", "progress", {"iteration": "1/10", "loss": 0.5})
    run.event("worker", "said", {"text": "two\nlines and \u2028 more"})
    lines = (run.path / "events.jsonl").read_text().split("\n")
    run.close()
    assert lines.pop() == ""
    first, second = map(json.loads, lines)
    assert (first["actor"], first["event"], first["iteration"], first["loss"]) == (
        "coordinator",
        "progress",
        "1/10",
        0.5,
    )
    assert second["text"] == "two\nlines and \u2028 more"
    assert 0 <= first["t"] <= second["t"]


def test_a_name_that_is_not_utf_8_is_refused_before_the_configuration_is_written(
    tmp_path: Path,
) -> None:
    run = RunDirectory(tmp_path, "digits")
    with pytest.raises(LaunchError, match=r"would hold bytes that are not UTF-8, near 'resume = "):
        run.write("config.toml", 'resume = "caf\udce9/runs"\n')
    run.discard()


def test_a_directory_that_is_removed_is_made_again_with_its_files_and_all_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remaking, "LOOK_SECONDS", 0.0)
    run = RunDirectory(tmp_path / "runs", "digits")
    told: list[str] = []
    run.on_trouble = told.append
    run.write("config.toml", "a = 1\n")
    run.event("coordinator", "progress", {"iteration": 1})
    run.beat("one", beat("one"))
    files = {path.name: path.read_bytes() for path in run.path.iterdir()}
    shutil.rmtree(tmp_path / "runs")
    run.event("coordinator", "progress", {"iteration": 2})
    assert told == [
        f"{run.path}: it was removed during the run, and is made again: its checkpoints and the "
        "logs of its processes are lost"
    ]
    assert {"run.json", "config.toml", "events.jsonl", "log.csv", "logs"} == {
        path.name for path in run.path.iterdir()
    }
    assert run.path.stat().st_mode & 0o777 == 0o700
    for name in ("run.json", "config.toml"):
        assert (run.path / name).read_bytes() == files[name]
    for name in ("events.jsonl", "log.csv"):
        content = (run.path / name).read_bytes()
        assert content.startswith(files[name]) and content.count(b"\n") == (
            files[name].count(b"\n") + 1
        )
    run.event("coordinator", "progress", {"iteration": 3})
    assert len(told) == 1
    run.discard()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_directory_that_cannot_be_made_again_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remaking, "LOOK_SECONDS", 0.0)
    run = RunDirectory(tmp_path / "runs", "digits")
    told: list[str] = []
    run.on_trouble = told.append
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "runs").write_text("a file\n")
    for number in range(3):
        run.event("coordinator", "progress", {"iteration": number})
    run.close()
    (said,) = [text for text in told if "it was removed" in text]
    assert "cannot be made again" in said


def test_text_is_written_as_it_is_and_anything_else_as_json(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "digits")
    run.write("config.toml", "a = 1\n")
    run.write("plan.json", {"a": [1]})
    run.close()
    assert (run.path / "config.toml").read_text() == "a = 1\n"
    assert json.loads((run.path / "plan.json").read_text()) == {"a": [1]}


@pytest.mark.parametrize("observed", [True, False])
def test_histograms_have_a_file_of_their_own_if_the_run_is_observed(
    tmp_path: Path, observed: bool
) -> None:
    run = RunDirectory(tmp_path, "digits", observed=observed)
    run.event("conv_model", "histograms", {"iteration": 10, "layer": "conv1", "arrays": []})
    run.close()
    assert (run.path / "events.jsonl").read_text() == ""
    kept = run.path / "histograms.jsonl"
    assert kept.exists() == observed
    if observed:
        (line,) = map(json.loads, kept.read_text().splitlines())
        assert line.pop("t") >= 0
        assert line == {"actor": "conv_model", "iteration": 10, "layer": "conv1", "arrays": []}

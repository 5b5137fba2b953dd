"""The run directory: no two runs share one, and its journal can be read while it grows."""

from __future__ import annotations

import json
from pathlib import Path

from runtime.report.rundir import RunDirectory


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


def test_text_is_written_as_it_is_and_anything_else_as_json(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "digits")
    run.write("config.toml", "a = 1\n")
    run.write("plan.json", {"a": [1]})
    run.close()
    assert (run.path / "config.toml").read_text() == "a = 1\n"
    assert json.loads((run.path / "plan.json").read_text()) == {"a": [1]}

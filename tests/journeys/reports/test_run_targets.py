"""A run registers for Prometheus in a folder of its user, and no state of this folder ends a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.support import configure, events, run_directory, run_up


def test_a_run_that_has_ended_leaves_no_file(tmp_path: Path) -> None:
    targets = tmp_path / "targets"
    configure(tmp_path, "single", iterations=3)
    done = run_up(tmp_path / "cluster.toml", "--set", f"metrics.targets={targets}")
    assert done.returncode == 0, done.stderr
    assert [*targets.iterdir()] == []
    assert "Prometheus" not in done.stdout + done.stderr


@pytest.mark.parametrize("key", ["", "metrics.targets="])
def test_a_folder_that_cannot_be_made_is_one_warning_unless_there_shall_be_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    configure(tmp_path, "single", iterations=3)
    more = ("--set", f"{key}''") if key else ()
    done = run_up(tmp_path / "cluster.toml", *more)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "Prometheus" in line]
    assert len(lines) == (0 if key else 1), done.stdout
    assert all(line.startswith("warning ") and "Not a directory" in line for line in lines)
    assert [*events(run_directory(tmp_path / "cluster.toml"), "ended")]

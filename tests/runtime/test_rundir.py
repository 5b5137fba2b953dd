"""The run directory: never shared, readable as it grows; and the sweep of what dead runs left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.machine.private import make_socket_directory
from runtime.report.rundir import RunDirectory
from tests.support import environment


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory of our own, so that nothing of this machine is swept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path


def dead_pid() -> int:
    """The number of a process that has just ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_runs_of_one_name_in_one_second_get_directories_of_their_own(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / "deep" / "runs", "digits") for _ in range(5)]
    assert len({run.path for run in runs}) == 5
    assert all(run.path.is_dir() and "-digits" in run.path.name for run in runs)
    for run in runs:
        run.close()


def test_the_journal_is_one_json_object_a_line_readable_while_the_run_goes_on(tmp_path: Path) -> None:
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


def test_a_socket_directory_is_private_and_short_enough_for_socket_names(temporary: Path) -> None:
    made = make_socket_directory()
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent == temporary
    assert len(made.name) < 40  # a socket's path has room for 107 bytes


def test_what_a_process_left_is_removed_from_outside_once_it_has_ended(temporary: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as living:
        left, other = (temporary / f"convoy-sockets-{pid}-x" for pid in (living.pid, os.getpid()))
        left.mkdir()
        other.mkdir()
        words = [sys.executable, "-m", "runtime.machine.private", str(living.pid)]
        with subprocess.Popen(words, env={**environment(), "TMPDIR": str(temporary)}) as removing:
            assert left.exists()
            living.communicate()
            assert removing.wait(20) == 0
    assert not left.exists()
    assert other.exists()


def test_what_dead_runs_left_behind_is_swept_and_nothing_else(temporary: Path) -> None:
    dead = temporary / f"convoy-sockets-{dead_pid()}-x"
    impossible = temporary / "convoy-sockets-99999999999999999999-x"
    living = temporary / f"convoy-sockets-{os.getpid()}-x"
    odd = temporary / "convoy-sockets-abc-x"
    superscript = temporary / "convoy-sockets-²-x"
    foreign = temporary / f"other-{dead_pid()}-x"
    for path in (dead, impossible, living, odd, superscript, foreign):
        path.mkdir()
        (path / "supervisor.control").touch()
    made = make_socket_directory()
    assert not dead.exists()
    assert not impossible.exists()
    assert all((path / "supervisor.control").exists() for path in (living, odd, superscript, foreign))
    shutil.rmtree(made)


def test_links_and_files_in_the_way_do_not_stop_a_run_and_nothing_is_swept_through_a_link(temporary: Path) -> None:
    target = temporary / "precious"
    target.mkdir()
    (target / "data").touch()
    (temporary / f"convoy-sockets-{dead_pid()}-link").symlink_to(target)
    (temporary / f"convoy-sockets-{dead_pid()}-dangling").symlink_to(temporary / "nowhere")
    (temporary / f"convoy-sockets-{dead_pid()}-file").touch()
    assert make_socket_directory().is_dir()
    assert (target / "data").exists()

"""The files by which Prometheus finds all runs of a user: written while a run lives, removed at its
end, and after a kill by later runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.records import target_files
from runtime.records.target_files import TargetFile, folder_of, sweep
from tests.helpers.support import environment

PAGE = {"targets": ["127.0.0.1:9464"], "labels": {"process": "up", "run": "r"}}
FOREVER = """
import sys
from pathlib import Path
from runtime.records.target_files import TargetFile
TargetFile(Path(sys.argv[1]), "killed", lambda: [{"targets": ["127.0.0.1:1"], "labels": {}}], print)
sys.stdin.read()
"""
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "LOOK_SECONDS", 0.01)


def until(happened: Callable[[], bool]) -> None:
    last = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < last


def unheard(text: str) -> None:
    raise AssertionError(text)


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def test_a_file_follows_the_targets_and_is_gone_after_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    targets = [PAGE]
    file = TargetFile(folder, "r", lambda: targets, unheard)
    until(lambda: read(file.path) == [PAGE])
    assert file.path.stat().st_mode & 0o777 == 0o644  # Prometheus may be another user
    targets = [PAGE, PAGE]
    until(lambda: read(file.path) == [PAGE, PAGE])
    file.close()
    assert list(folder.iterdir()) == []


def test_two_runs_of_one_name_at_once_have_two_files(tmp_path: Path) -> None:
    files = [TargetFile(tmp_path, "r", lambda: [PAGE], unheard) for _ in range(2)]
    until(lambda: len([*tmp_path.glob("*.json")]) == 2)
    files[0].close()
    assert [*tmp_path.glob("*.json")] == [files[1].path]
    files[1].close()


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    file = TargetFile(tmp_path, "r", lambda: [PAGE], unheard)
    until(lambda: read(file.path) == [PAGE])
    for path in tmp_path.iterdir():
        path.unlink()
    until(lambda: read(file.path) == [PAGE])
    file.close()
    assert list(tmp_path.iterdir()) == []


def killed(folder: Path) -> Path:
    """The file of a process that was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", FOREVER, str(folder)],
        env=environment(),
        stdin=subprocess.PIPE,
    ) as process:
        until(lambda: bool([*folder.glob("*.json")]))
        process.kill()
    (path,) = folder.glob("*.json")
    return path


def test_the_file_of_a_killed_run_stays_for_the_alert_and_is_then_removed(tmp_path: Path) -> None:
    path = killed(tmp_path)
    sweep(tmp_path)
    assert read(path) == [{"targets": ["127.0.0.1:1"], "labels": {}}]
    for left in tmp_path.iterdir():
        os.utime(left, (0, time.time() - target_files.LEFT_SECONDS - 1))
    (tmp_path / "by-hand.json").write_text("[]")
    file = TargetFile(tmp_path, "next", lambda: [PAGE], unheard)
    until(lambda: read(file.path) == [PAGE])
    assert {each.name for each in tmp_path.glob("*.json")} == {file.path.name, "by-hand.json"}
    file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["by-hand.json"]


def test_a_live_run_keeps_its_file_however_old_it_is(tmp_path: Path) -> None:
    file = TargetFile(tmp_path, "r", lambda: [PAGE], unheard)
    until(lambda: read(file.path) == [PAGE])
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    sweep(tmp_path)
    assert read(file.path) == [PAGE]
    file.close()


def test_a_live_run_touches_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_files, "TOUCH_SECONDS", 0.01)
    file = TargetFile(tmp_path, "r", lambda: [PAGE], unheard)
    until(lambda: read(file.path) == [PAGE])
    os.utime(file.path, (0, 0))
    until(lambda: file.path.stat().st_mtime > 0)
    file.close()


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.touch()
    told: list[str] = []
    looks = threading.Semaphore(0)

    def targets() -> list[dict[str, Any]]:
        looks.release()
        return [PAGE]

    file = TargetFile(folder / "targets", "r", targets, told.append)
    for _ in range(3):
        assert looks.acquire(timeout=PATIENCE)
    file.close()
    (text,) = told
    assert text.startswith(
        f"{folder / 'targets'}: Not a directory: Prometheus cannot find this run"
    )
    assert "metrics.targets" in text


def test_a_full_disk_keeps_the_last_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    targets = [PAGE]
    file = TargetFile(tmp_path, "r", lambda: targets, told.append)
    until(lambda: read(file.path) == [PAGE])

    def full(*_: object) -> int:
        return os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(target_files.owned, "open_file", full)
    targets = [PAGE, PAGE]
    until(lambda: bool(told))
    assert "No space left on device" in told[0]
    assert read(file.path) == [PAGE]
    monkeypatch.undo()
    until(lambda: read(file.path) == [PAGE, PAGE])
    file.close()
    assert len(told) == 1


def test_the_folder_follows_the_key_then_the_environment_then_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below = Path("convoy", "targets", platform.node())
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert folder_of("") is None
    assert folder_of("~/targets") == Path("/home/me/targets")
    assert folder_of(None) == "/state" / below
    for absent in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", absent)
        assert folder_of(None) == "/home/me/.local/state" / below

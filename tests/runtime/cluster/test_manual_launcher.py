"""The line that admits a machine contains a key: it is shown only to a reader on a terminal or
pipe, and kept only in a private file.
"""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.launchers.manual import ManualLauncher
from runtime.config.sections import Machine
from runtime.errors import LaunchError

KEY = "5f0c" * 16


@contextmanager
def stdout(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with os.fdopen(descriptor, "w") as opened, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", opened)
        yield


def manual(folder: Path) -> ManualLauncher:
    launcher = ManualLauncher(LaunchPlan(folder, "roles", ()))
    launcher.private = folder
    return launcher


async def typed(folder: Path, key: str = KEY, launcher: ManualLauncher | None = None) -> None:
    await (launcher or manual(folder)).start(
        Machine(name="yours"), ["python3", "-m", "runtime", "join", "10.0.0.1:7", "yours"], key
    )


async def test_a_key_is_not_written_into_a_log_but_into_a_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        with stdout(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT, 0o644), monkeypatch):
            await typed(tmp_path)
    finally:
        os.umask(before)
    log = read(tmp_path / "log")
    kept = tmp_path / "yours.invitation"
    assert log == (
        "machine 'yours': type there\n    python3 -m runtime join 10.0.0.1:7 yours\n"
        f"and then the line that is in this file, which only you can read\n    {kept}\n"
    )
    assert read(kept) == f"{KEY}\n"
    assert mode(kept) == 0o600


async def test_a_key_is_shown_on_a_terminal_and_to_the_reader_of_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader, writer in (pty.openpty(), os.pipe()):
        with stdout(writer, monkeypatch):
            await typed(tmp_path)
            said = os.read(reader, 4096).decode().replace("\r", "")
        os.close(reader)
        assert said.endswith(f"and then\n    {KEY}\n")
    assert names(tmp_path) == []


async def test_a_machine_that_returns_gets_a_new_line_in_the_file_of_its_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = manual(tmp_path)
    with stdout(os.open(os.devnull, os.O_WRONLY), monkeypatch):
        await typed(tmp_path, KEY, launcher)
        await typed(tmp_path, "another", launcher)
    kept = tmp_path / "yours.invitation"
    assert read(kept) == "another\n"
    assert mode(kept) == 0o600


async def test_an_existing_file_is_not_used_for_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(tmp_path / "yours.invitation", tmp_path / "elsewhere")
    with (
        stdout(os.open(os.devnull, os.O_WRONLY), monkeypatch),
        pytest.raises(
            LaunchError,
            match=(
                r"yours\.invitation: the line for machine 'yours' cannot be "
                r"written: File exists"
            ),
        ),
    ):
        await typed(tmp_path)
    assert names(tmp_path) == ["yours.invitation"]


def read(path: Path) -> str:
    return path.read_text()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def link(path: Path, to: Path) -> None:
    path.symlink_to(to)

"""Damaged locks of `up` and damaged identities of runs: they are named, no command waits for them,
and the other runs still count.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.cli.main import main
from runtime.records import lock_file, presence, run_files, up_lock
from runtime.records.lock_file import Holder, path_of
from runtime.records.presence import UNREADABLE, Sign, presence_by, presence_of, presences
from runtime.records.runs import runs_in
from runtime.records.up_lock import UpLock
from runtime.records.wishes import wish_of

FAR = Holder("far", "another-host", "another-boot", 1, "run", renewed=1.0)


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


INSTEAD: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: write(path, b""),
    "garbage": lambda path: write(path, b"\xff\x00garbage"),
    "huge": lambda path: write(path, b" " * (lock_file.SIZE + 1)),
    "deep": lambda path: write(path, b"[" * lock_file.SIZE),
    "a list": lambda path: write(path, b"[]"),
    "other fields": lambda path: write(path, b'{"up": 1}'),
    "another up": lambda path: write(path, json.dumps(dataclasses.asdict(FAR)).encode()),
    "no time": lambda path: write(
        path, json.dumps({**dataclasses.asdict(FAR), "renewed": "NaN"}).encode()
    ),
    "a path": lambda path: write(
        path, json.dumps({**dataclasses.asdict(FAR), "run": "../other"}).encode()
    ),
    "a named pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("not-there"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shorten the watch of doubtful locks; return the list of the pauses between two looks."""
    pauses: list[float] = []
    monkeypatch.setattr(up_lock, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(lock_file, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(presence.time, "sleep", pauses.append)
    return pauses


@pytest.mark.parametrize("kind", INSTEAD)
def test_a_lock_that_cannot_be_read_is_reported_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], soon: list[float], kind: str
) -> None:
    with UpLock(tmp_path, print) as lock:
        lock.says(lock_file.CHOOSING)
        INSTEAD[kind](path_of(tmp_path, "bad"))
        notes: list[str] = []
        found = presences(tmp_path, notes.append)
        assert [(each.sign, each.holder.up) for each in found] == [(Sign.HELD, lock.up)]
        (note,) = notes
        assert note.startswith(f"{path_of(tmp_path, 'bad')}: it ")
        assert "expected the lock of an `up`; remove it if no `up` runs" in note
        with pytest.raises(run_files.Damaged):
            presence_by(tmp_path, "bad")
        assert main(["ps", str(tmp_path)]) == 0
        said = capsys.readouterr()
        assert said.out.startswith(f"up {lock.up} ")
        assert note in said.err


@pytest.mark.parametrize("kind", INSTEAD)
def test_a_wish_that_cannot_be_read_is_ignored(tmp_path: Path, kind: str) -> None:
    INSTEAD[kind](path_of(tmp_path, "me", lock_file.END))
    assert wish_of(tmp_path, "me") in (None, False)


def test_a_damaged_lock_that_is_held_counts_as_held_and_is_soon_repaired(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        path_of(tmp_path, lock.up).write_bytes(b"\x00" * lock_file.SIZE)
        found = presence_by(tmp_path, lock.up)
    assert found is not None
    assert (found.sign, found.holder.pid) == (Sign.HELD, os.getpid())


def test_a_held_lock_that_stays_damaged_counts_as_held_all_the_same(
    tmp_path: Path, soon: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UpLock, "_renew", lambda self: None)
    with UpLock(tmp_path, print) as lock:
        path_of(tmp_path, lock.up).write_bytes(b"{}")
        found = presence_by(tmp_path, lock.up)
    assert found is not None
    assert (found.sign, found.holder.up, found.holder.state) == (Sign.HELD, lock.up, UNREADABLE)


def test_the_up_of_a_run_whose_identity_is_damaged_is_found_by_its_lock(tmp_path: Path) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "run.json").write_text('{"id": "half')
    (run / "events.jsonl").write_text(
        '{"t": 0.0, "unix_seconds": 1.0, "actor": "a", "event": "began"}\n'
    )
    with UpLock(tmp_path, print) as lock:
        lock.says(lock_file.RUNNING, "other")
        assert presence_of(run) is None
        lock.says(lock_file.RUNNING, "one")
        while lock_file.read(path_of(tmp_path, lock.up)).run != "one":
            os.sched_yield()
        found = presence_of(run)
    assert found is not None
    assert found.holder.up == lock.up


def leave(folder: Path, count: int, content: Callable[[str], bytes]) -> None:
    for number in range(count):
        path_of(folder, f"{number:05}").write_bytes(content(f"{number:05}"))


def doubtful(up: str) -> bytes:
    """The lock of a host whose `up` was killed a minute ago, or whose clock is behind."""
    return json.dumps(
        dataclasses.asdict(dataclasses.replace(FAR, up=up, renewed=time.time() - 60))
    ).encode()


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_doubtful_locks_are_watched_at_the_same_time(
    tmp_path: Path, soon: list[float], count: int
) -> None:
    leave(tmp_path, count, doubtful)

    found = presences(tmp_path, print)
    assert [each.sign for each in found] == [Sign.SILENT] * count
    assert 1 <= len(soon) < count / 3, "the locks were watched one after another"


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_of_many_damaged_locks_some_are_named_and_the_rest_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], soon: list[float], count: int
) -> None:
    leave(tmp_path, count, lambda up: b"garbage")
    assert main(["ps", str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == f"warning: {count - 20} more files are damaged"


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_runs_whose_identities_are_damaged_do_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    for number in range(count):
        folder = tmp_path / f"{number:05}"
        folder.mkdir()
        (folder / "run.json").write_bytes([b"", b"{}", b"[" * 1000, b"\xff"][number % 4])
    whole = tmp_path / "whole"
    whole.mkdir()
    said = {
        "id": "a1",
        "name": "whole",
        "began": "2026-11-28T06:33:26.123456Z",
        "continues": "",
        "up": "",
    }
    (whole / "run.json").write_text(json.dumps(said))
    (whole / "events.jsonl").write_text('{"t": 0.0, "actor": "a", "event": "finished"}\n')
    os.mkfifo(tmp_path / "pipe")
    assert [run.directory for run in runs_in(tmp_path)] == [whole]
    assert main(["ps", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no live run in {tmp_path}\n"

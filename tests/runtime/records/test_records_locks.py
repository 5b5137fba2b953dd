"""The lock of `up`: its holder, and its meaning when the holder was killed or runs on another host,
or when the lock is damaged.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.machine.boot import boot_id
from runtime.records import presence, sweeping, wishes
from runtime.records.lock_file import BETWEEN, END, NEW, SIZE, path_of, read
from runtime.records.presence import Sign, presence_by, presence_of, presences
from runtime.records.run_files import Damaged
from runtime.records.run_identity import Identity
from runtime.records.up_lock import UpLock
from tests.helpers.support import environment

HOLD = """
import sys
from pathlib import Path
from runtime.records.up_lock import UpLock
with UpLock(Path(sys.argv[1]), print) as lock:
    print(lock.up, flush=True)
    sys.stdin.read()
"""
ELSEWHERE = {"host": "elsewhere", "boot": "another", "pid": 7, "run": "a", "state": "running"}


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that holds a lock, and the id of the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def found(folder: Path, up: str) -> Sign | None:
    seen = presence_by(folder, up)
    return None if seen is None else seen.sign


def written(folder: Path, up: str = "x", **said: Any) -> Path:
    """The lock of another host, as it is found in a shared folder."""
    path = path_of(folder, up)
    path.write_text(json.dumps({"up": up, **ELSEWHERE, "renewed": time.time(), **said}).ljust(SIZE))
    return path


def test_a_lock_that_is_held_is_seen_from_its_folder_and_from_its_run(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        Identity.new("exp", 1.0, up=lock.up).write(tmp_path)
        (run := tmp_path / "run").mkdir()
        Identity.new("exp", 1.0, up=lock.up).write(run)
        (seen,) = presences(tmp_path)
        assert (seen.sign, seen.holder.pid, seen.holder.host) == (
            Sign.HELD,
            os.getpid(),
            platform.node(),
        )
        assert seen.run is None and presence_of(run) is not None
        lock.says(BETWEEN, "run")
        _until(lambda: read(path_of(tmp_path, lock.up)).state == BETWEEN)
        (seen,) = presences(tmp_path)
        assert (seen.run, seen.words, seen.lives) == (run, "between two runs", True)
        assert oct(seen.file.stat().st_mode)[-3:] == "600"
    assert presences(tmp_path) == [] and presence_of(run) is None
    assert list(tmp_path.glob(".up-*")) == []


def test_a_lock_of_a_killed_process_is_free_at_once_and_the_next_up_removes_it(
    tmp_path: Path, held: tuple[subprocess.Popen[str], str]
) -> None:
    process, up = held
    assert found(tmp_path, up) is Sign.HELD
    wishes.ask_to_end(tmp_path, up, now=False)
    process.kill()
    process.wait()
    assert found(tmp_path, up) is None and presences(tmp_path) == []
    assert path_of(tmp_path, up).exists()
    with UpLock(tmp_path, print) as lock:
        assert [path.name for path in tmp_path.glob(".up-*")] == [f".up-{lock.up}.lock"]


def test_a_stopped_process_holds_its_lock(
    tmp_path: Path, held: tuple[subprocess.Popen[str], str]
) -> None:
    process, up = held
    process.send_signal(signal.SIGSTOP)
    assert found(tmp_path, up) is Sign.HELD
    sweeping.sweep(tmp_path)
    assert found(tmp_path, up) is Sign.HELD


def test_commands_that_look_at_a_free_lock_never_take_one_another_for_an_up(tmp_path: Path) -> None:
    path = written(tmp_path, boot=boot_id())
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # as another `ps` does while it looks
        assert found(tmp_path, "x") is None


@pytest.mark.parametrize(
    ("since", "sign"),
    [(0, Sign.ELSEWHERE), (14, Sign.ELSEWHERE), (700, Sign.SILENT), (-700, Sign.SILENT)],
)
def test_a_lock_of_another_host_is_judged_by_its_time(
    since: float, sign: Sign, tmp_path: Path
) -> None:
    written(tmp_path, renewed=time.time() - since)
    (seen,) = presences(tmp_path)
    assert seen.sign is sign and seen.lives == (sign is Sign.ELSEWHERE)
    expected = "runs on elsewhere" if seen.lives else f"elsewhere: last sign {max(0, since)} s ago"
    assert seen.words == expected


@pytest.mark.parametrize("ahead", [-300.0, 300.0])
def test_a_lock_that_is_renewed_counts_as_live_although_the_clocks_of_two_hosts_differ(
    ahead: float, tmp_path: Path
) -> None:
    written(tmp_path, renewed=time.time() + ahead)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.1):
            half = tmp_path / "half"
            half.write_bytes(
                written(tmp_path, "y", renewed=time.time() + ahead)
                .read_bytes()
                .replace(b'"y"', b'"x"')
            )
            half.rename(path_of(tmp_path, "x"))

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        assert found(tmp_path, "x") is Sign.ELSEWHERE
    finally:
        over.set()
        thread.join()


def test_a_lock_of_this_machine_from_before_its_last_boot_does_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, host=platform.node(), renewed=time.time() - 3600)
    assert found(tmp_path, "x") is None
    sweeping.sweep(tmp_path)
    assert path.exists(), "a lock that a machine of the same name may have just renewed was removed"
    os.utime(path, (0, 0))
    sweeping.sweep(tmp_path)
    assert not path.exists()


def test_a_lock_of_another_host_is_never_swept(tmp_path: Path) -> None:
    path = written(tmp_path, renewed=0)
    os.utime(path, (0, 0))
    sweeping.sweep(tmp_path)
    assert path.exists()


def test_a_file_system_without_locks_is_reported_and_the_time_in_the_lock_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    said: list[str] = []
    with UpLock(tmp_path, said.append) as lock:
        assert found(tmp_path, lock.up) is Sign.ELSEWHERE
        assert said == [
            (
                f"{tmp_path}: Operation not supported: other processes can see only by the time "
                "in the lock whether this `up` lives"
            )
        ]
    assert found(tmp_path, lock.up) is None


DAMAGE: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "deep": b"[" * SIZE,
    "not UTF-8": b"\xff\xfe",
    "other keys": b'{"up": "x"}',
    "another's id": json.dumps({"up": "y", **ELSEWHERE, "renewed": 0}).encode(),
    "a path": json.dumps({"up": "x", **ELSEWHERE, "run": "../a", "renewed": 0}).encode(),
    "the folder above": json.dumps({"up": "x", **ELSEWHERE, "run": "..", "renewed": 0}).encode(),
    "an endless time": json.dumps({"up": "x", **ELSEWHERE, "renewed": 10**400}).encode(),
    "too long": b" " * (SIZE + 1),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_lock_without_a_holder_does_not_count_and_is_removed_when_it_is_old(
    damage: bytes, tmp_path: Path
) -> None:
    path = path_of(tmp_path, "x")
    path.write_bytes(damage)
    assert presences(tmp_path) == []
    sweeping.sweep(tmp_path)
    assert path.exists()
    os.utime(path, (0, 0))
    sweeping.sweep(tmp_path)
    assert not path.exists()


def test_a_lock_that_was_damaged_while_it_is_held_is_repaired_by_its_holder(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        path = path_of(tmp_path, lock.up)
        _until(lambda: read(path).renewed > 0)
        path.write_bytes(b"damage")
        assert found(tmp_path, lock.up) is Sign.HELD


def test_a_lock_that_this_user_may_not_read_hides_no_other_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that several users share."""

    def others(path: Path) -> Any:
        if path.name == ".up-x.lock":
            error = Damaged(path, "it cannot be read: Permission denied")
            error.is_others = True
            raise error
        return real(path)

    real = presence.lock_file.read
    monkeypatch.setattr(presence.lock_file, "read", others)
    written(tmp_path, "x")
    written(tmp_path, "y")
    assert [seen.holder.up for seen in presences(tmp_path)] == ["y"]


@pytest.mark.parametrize(
    ("name", "old", "left"),
    [
        (".up-gone.end", False, False),
        (".up-gone.1234abcd", False, False),
        (f".up-gone{NEW}", False, True),
        (f".up-gone{NEW}", True, False),
        (".upper", True, True),
    ],
)
def test_leftover_files_without_a_lock_are_removed_and_a_lock_in_the_making_is_not(
    name: str, old: bool, left: bool, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.touch()
    if old:
        os.utime(path, (0, 0))
    sweeping.sweep(tmp_path)
    assert path.exists() is left


def test_a_lock_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        UpLock(tmp_path, print).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_can_no_longer_be_renewed_is_reported_once(tmp_path: Path) -> None:
    said: list[str] = []
    with UpLock(tmp_path, said.append) as lock:
        path_of(tmp_path, lock.up).unlink()
        path_of(tmp_path, lock.up).mkdir()
        for state in ("one", "two"):
            lock.says(state)
            _until(lambda: len(said) > 0)
        path_of(tmp_path, lock.up).rmdir()
    assert len(said) == 1 and said[0].startswith(f"{path_of(tmp_path, lock.up)}: Is a directory: ")


# -- wishes


@pytest.mark.parametrize("now", [False, True])
def test_a_wish_reaches_the_holder_and_is_removed_with_the_lock(now: bool, tmp_path: Path) -> None:
    heard: list[bool] = []
    with UpLock(tmp_path, print) as lock:
        lock.on_wish = heard.append
        wishes.ask_to_end(tmp_path, lock.up, now=now)
        _until(lambda: len(heard) > 0)
        assert heard[0] is now
        # the file of a `down` that was killed before it had written its wish
        (tmp_path / f".up-{lock.up}.deadbeef").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_wish_after_the_end_of_the_lock_leaves_no_file(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        pass
    with pytest.raises(FileNotFoundError):
        wishes.ask_to_end(tmp_path, lock.up, now=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"17", b"\xff", b"[" * SIZE, b'{"now": ' + b"[" * (SIZE - 10)]
)
def test_a_damaged_wish_is_ignored_and_the_lock_is_still_kept(
    damage: bytes, tmp_path: Path
) -> None:
    heard: list[bool] = []
    with UpLock(tmp_path, print) as lock:
        lock.on_wish = heard.append
        path_of(tmp_path, lock.up, END).write_bytes(damage)
        path_of(tmp_path, lock.up, END).chmod(0o600)
        renewed = read(path_of(tmp_path, lock.up)).renewed
        lock.says(BETWEEN)
        _until(lambda: read(path_of(tmp_path, lock.up)).renewed != renewed)
    assert heard == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_lock_of_another_user_is_not_asked(tmp_path: Path) -> None:
    """The `up` of that user would ignore the wish, since the file does not belong to its user."""
    os.chown(written(tmp_path), 1, 1)
    with pytest.raises(PermissionError, match="it is another user's"):
        wishes.ask_to_end(tmp_path, "x", now=False)
    assert [path.name for path in tmp_path.iterdir()] == [".up-x.lock"]


def _until(said: Callable[[], bool]) -> None:
    """Wait until the thread of the lock has done it."""
    until = time.monotonic() + 20
    while not said():
        assert time.monotonic() < until
        time.sleep(0.01)

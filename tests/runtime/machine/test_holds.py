"""Holds of folders: a folder in use keeps its lock until its process ends or releases it, and a
sweep removes only unused folders.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runtime.machine import owned
from runtime.machine.owned import Hold, is_marked, make_folder, sweep
from tests.helpers.support import ROOT

HOLDER = """
import sys
from pathlib import Path
from runtime.machine.owned import Hold
hold = Hold.take(Path(sys.argv[1]), shared=len(sys.argv) > 2)
print(hold is not None, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A file system without locks: flock fails with this error number."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def holder(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Another process that holds the lock of a folder; it ends when its standard input closes."""
    command = [sys.executable, "-c", HOLDER, str(folder), *words]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    return process


def marked(folder: Path) -> Path:
    make_folder(folder)
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("kept")
    return folder


def test_a_held_folder_is_not_swept_until_its_process_ends_or_releases_it(tmp_path: Path) -> None:
    folder = marked(tmp_path / "held")
    with holder(folder) as other:
        assert Hold.take(folder) is None
        sweep(tmp_path, "*")
        assert (folder / "below" / "file").read_text() == "kept"
        other.communicate()
    mine = Hold.take(folder)
    assert mine is not None
    sweep(tmp_path, "*")
    assert folder.exists()
    mine.release()
    mine.release()  # a second release has no effect
    sweep(tmp_path, "*")
    assert not folder.exists()


def test_a_shared_lock_is_given_to_several_and_keeps_the_sweep_away(tmp_path: Path) -> None:
    folder = marked(tmp_path / "held")
    with holder(folder, "shared") as other:
        mine = Hold.take(folder, shared=True)
        assert mine is not None
        assert Hold.take(folder) is None
        other.communicate()
        sweep(tmp_path, "*")
        assert folder.exists()
        mine.release()
    assert repr(mine) == f"<hold on {folder}, released>"


def test_a_forked_child_does_not_keep_the_lock_and_removes_nothing(tmp_path: Path) -> None:
    folder = marked(tmp_path / "held")
    mine = Hold.take(folder)
    assert mine is not None
    ours, theirs = socket.socketpair()
    if (pid := os.fork()) == 0:
        ours.close()
        mine.remove()
        theirs.send(b"forked")
        theirs.recv(1)  # the child outlives the lock
        os._exit(0)
    with theirs, ours:
        assert ours.recv(6) == b"forked"
        assert (folder / "below" / "file").exists()
        mine.forget()  # as at the end of this process
        again = Hold.take(folder)
    os.waitpid(pid, 0)
    assert again is not None
    again.remove()
    assert not folder.exists()


@pytest.mark.parametrize("no_locks", owned.WITHOUT_LOCKS, indirect=True)
def test_folders_on_a_file_system_without_locks_are_used_and_never_swept(
    tmp_path: Path, no_locks: None
) -> None:
    folder = marked(tmp_path / "held")
    mine = Hold.take(folder)
    assert mine is not None
    assert not mine.locked
    assert "without a lock" in repr(mine)
    sweep(tmp_path, "*")
    assert (folder / "below" / "file").exists()
    mine.remove()
    assert not folder.exists()


@pytest.mark.parametrize("no_locks", [errno.EIO], indirect=True)
def test_a_disk_error_is_not_taken_for_missing_locks(tmp_path: Path, no_locks: None) -> None:
    folder = marked(tmp_path / "held")
    with pytest.raises(OSError, match="Input/output error"):
        Hold.take(folder)


def test_a_folder_that_is_gone_or_was_made_again_gives_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(owned._holds)
    assert Hold.take(tmp_path / "none") is None
    folder = marked(tmp_path / "held")
    real = owned.lock

    def removed_meanwhile(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
        owned.remove_folder(folder)
        if again:
            make_folder(folder)
        return real(descriptor, shared=shared, wait=wait)

    monkeypatch.setattr(owned, "lock", removed_meanwhile)
    for made_again in (True, False):
        again = made_again
        assert Hold.take(folder) is None
    assert owned._holds == before


def test_only_marked_unused_folders_of_the_pattern_are_swept(tmp_path: Path) -> None:
    left, fresh, other = (marked(tmp_path / name) for name in ("run-left", "run-fresh", "other"))
    (tmp_path / "run-unmarked").mkdir(mode=0o700)
    (tmp_path / "run-unmarked" / "thesis").touch()
    (tmp_path / "run-link").symlink_to(fresh)
    (tmp_path / "run-file").touch()
    sweep(tmp_path, "run-*", lambda folder: folder != fresh)
    assert not left.exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "other", "run-file", "run-fresh", "run-link", "run-unmarked"
    ]  # fmt: skip
    assert (other / "below" / "file").exists()
    sweep(tmp_path / "none", "*")


def test_no_file_is_removed_through_a_link_in_a_folder_that_is_swept(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").touch()
    folder = marked(tmp_path / "left")
    (folder / "link").symlink_to(tmp_path / "precious")
    (folder / "below" / "link").symlink_to(tmp_path / "precious")
    sweep(tmp_path, "left")
    assert not folder.exists()
    assert (tmp_path / "precious" / "data").exists()


def test_the_marker_goes_last_so_that_a_folder_half_removed_is_swept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = marked(tmp_path / "left")
    (folder / "more").touch()

    def killed(path: str, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owned.shutil, "rmtree", killed)  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            owned.remove_folder(folder)
    assert is_marked(folder)
    sweep(tmp_path, "left")
    assert not folder.exists()


@pytest.mark.parametrize("rounds", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_sweeper_at_work_never_removes_the_folder_of_a_maker(tmp_path: Path, rounds: int) -> None:
    over = threading.Event()

    def sweeps() -> None:
        while not over.is_set():
            sweep(tmp_path, "*")

    sweeper = threading.Thread(target=sweeps)
    sweeper.start()
    try:
        for _ in range(rounds):
            hold = None
            while hold is None:
                make_folder(tmp_path / "one")
                hold = Hold.take(tmp_path / "one")
            (tmp_path / "one" / "used").write_text("used")
            assert (tmp_path / "one" / "used").read_text() == "used"
            hold.release()
    finally:
        over.set()
        sweeper.join()

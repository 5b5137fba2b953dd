"""Checkpoint writers killed at any instant and disks that fail at any call: the previous checkpoint
or the new one loads.

CONVOY_WRITES sets how many writers the slow run kills (200 by default). CONVOY_SEED sets the
moments of the kills (1 by default).
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos.checkpoint_writers import Nursery, arrays_of, loaded
from nets.files import checkpoint

WRITES = int(os.environ.get("CONVOY_WRITES", "200"))
SEED = int(os.environ.get("CONVOY_SEED", "1"))
NAME = "checkpoint-0000001.safetensors"
CALLS = ("open", "write", "fdatasync", "fsync", "replace", "close", "unlink")
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    made = Nursery(tmp_path / NAME)
    yield made
    made.close()


@pytest.mark.few("[10]")
@pytest.mark.parametrize("kills", [10, WRITES])
def test_a_writer_killed_at_any_instant_leaves_the_checkpoint_before_or_the_new_one(
    tmp_path: Path, nursery: Nursery, kills: int
) -> None:
    draw = random.Random(SEED)
    path = tmp_path / NAME
    halves = 0
    checkpoint.save(path, arrays_of(0), {"iteration": "0"})
    begin = time.monotonic()
    checkpoint.save(path, arrays_of(0), {"iteration": "0"})
    usual = time.monotonic() - begin
    for _ in range(kills):
        before = loaded(path)
        nursery.kill(nursery.start(before + 1), draw.uniform(0, 4 * usual))
        assert loaded(path) in (nursery.whole, nursery.whole + 1, before, before + 1)
        assert loaded(path) >= max(before, nursery.whole)
        halves += bool(list(tmp_path.glob(".*.tmp")))
    assert halves, "no kill was in the middle of a write"
    checkpoint.save(path, arrays_of(7), {"iteration": "7"})
    assert [file.name for file in tmp_path.iterdir()] == [NAME], (
        "the next writer removes the temporary files of killed writers"
    )


class Disk:
    """The calls of `os` that write files. The call with the number `fails` fails (1 is the first);
    with `lasts`, all later calls fail too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fails = 0
        self.lasts = False
        self.code = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._double(name))

    def arm(self, fails: int, code: int, *, lasts: bool = False) -> None:
        self.calls = []
        self.fails = fails
        self.code = code
        self.lasts = lasts

    def _double(self, name: str) -> object:
        real = getattr(os, name)

        def called(*given: object, **named: object) -> object:
            self.calls.append(name)
            number = len(self.calls)
            if number == self.fails or (self.lasts and 0 < self.fails < number and name != "close"):
                if name == "close":
                    real(*given, **named)  # Linux closes the file even if close reports an error
                raise OSError(self.code, os.strerror(self.code))
            return real(*given, **named)

        return called


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from there on"])
def test_a_disk_that_fails_at_any_call_leaves_the_checkpoint_before_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 1 << 18)
    path = tmp_path / NAME
    checkpoint.save(path, arrays_of(0), {"iteration": "0"})
    disk = Disk(monkeypatch)
    disk.arm(0, 0)
    checkpoint.save(path, arrays_of(0), {"iteration": "0"})
    calls = list(disk.calls)
    assert set(calls) == set(CALLS) - {"unlink"}
    written = len(calls) - 1 - calls[::-1].index("write")
    renamed = calls.index("replace")
    assert "fsync" in calls[written:renamed], "the file is renamed before its data are flushed"
    assert "fsync" in calls[renamed:], "the directory is not flushed after the rename"
    failed = 0
    for at in range(1, len(calls) + 1):
        for code in CODES:
            before = loaded(path)
            disk.arm(at, code, lasts=lasts)
            try:
                checkpoint.save(path, arrays_of(before + 1), {"iteration": str(before + 1)})
            except OSError as error:
                assert str(error).startswith(f"[Errno {code}] {os.strerror(code)}: ")
                failed += 1
            disk.arm(0, 0)
            assert loaded(path) in (before, before + 1)
            if not lasts:
                assert [file.name for file in tmp_path.iterdir()] == [NAME], calls[at - 1]
    assert failed == len(calls) * len(CODES), "a save with a failed call did not raise an error"
    checkpoint.save(path, arrays_of(9), {"iteration": "9"})
    assert [file.name for file in tmp_path.iterdir()] == [NAME]

"""Kernels are compiled before the first one runs, each by one process. Waiting processes report the
progress."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ops.cpu.codegen import store, wanted
from ops.cpu.codegen.store import Place, _made, alone, seen


class Piece:
    """A stand-in for a kernel. `taken` is how many more times it is found held by another
    process."""

    def __init__(self, name: str, log: list[str], taken: int = 0) -> None:
        self.kept_as = name
        self._log = log
        self._taken = taken

    def load(self, wait: bool) -> bool:
        if self._taken and not wait:
            self._taken -= 1
            self._log.append(f"{self.kept_as} is taken")
            return False
        self._log.append(f"{self.kept_as} waited for" if self._taken else self.kept_as)
        return True


class Broken(Piece):
    def load(self, wait: bool) -> bool:
        raise OSError("no room for it")


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store without kernels and without requests for any."""
    monkeypatch.setattr(store, "place", cache(lambda: Place(_made(tmp_path, "0" * 16))))
    monkeypatch.setattr(wanted, "_counts", {"done": 0, "total": 0})
    yield
    wanted.wanted.clear()


def test_kernels_that_another_process_compiles_come_after_free_ones() -> None:
    log: list[str] = []
    for name, taken in (("a", 1), ("b", 0), ("c", 0)):
        wanted.want(Piece(name, log, taken))
    wanted.load()
    assert log == ["a is taken", "b", "c", "a"]
    assert wanted.wanted == []


def test_when_others_compile_all_that_is_left_one_is_waited_for() -> None:
    log: list[str] = []
    for name in "ab":
        wanted.want(Piece(name, log, 3))
    wanted.load()
    assert log[:2] == ["a is taken", "b waited for"]
    assert wanted.wanted == []


def test_a_kernel_that_is_wanted_twice_is_loaded_once() -> None:
    log: list[str] = []
    piece = Piece("a", log)
    wanted.want(piece)
    wanted.want(piece)
    wanted.load()
    assert log == ["a"]


def test_a_kernel_that_cannot_be_compiled_stays_wanted() -> None:
    broken = Broken("a", [])
    wanted.want(broken)
    with pytest.raises(OSError, match="no room"):
        wanted.load()
    assert wanted.wanted == [broken]


def test_the_progress_of_compiling_is_reported_with_the_total(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ops.kernels")
    for name in "abc":
        wanted.want(Piece(name, []))
    wanted.load()
    told = [record.preparing for record in caplog.records]  # type: ignore[attr-defined]
    assert told[0] == {"done": 0, "total": 3, "what": "compiling kernels"}
    assert told[-1] == {"done": 3, "total": 3, "what": "compiling kernels"}


def test_nothing_is_reported_if_everything_is_compiled_already(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ops.kernels")
    with alone("a"):
        pass
    wanted.want(Piece("a", []))
    wanted.load()
    assert caplog.records == []


def test_a_name_that_is_held_elsewhere_is_not_waited_for() -> None:
    assert not seen("a")
    with alone("a") as place:
        assert place is not None
        assert seen("a")
        with alone("a", wait=False) as second:
            assert second is None
    with alone("a", wait=False) as free:
        assert free is not None

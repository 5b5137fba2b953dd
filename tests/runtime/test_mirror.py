"""Files of another machine and their copies here: the same bytes, whole or as a log that grows, no other file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from runtime.cluster.machines import mirror
from runtime.cluster.machines.copies import Copies
from runtime.cluster.machines.mirror import Mirror
from runtime.cluster.machines.words import GONE, Piece
from runtime.errors import MessageError


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there" / "logs").mkdir(parents=True)
    return tmp_path / "there"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def copied(source: Mirror, copies: Copies, *, last: bool = False) -> list[str]:
    """The names of the files of which something was new."""
    found = list(source.look(last=last))
    for piece in found:
        copies.take(piece)
    return sorted({piece.path for piece in found})


def test_a_log_is_copied_as_it_grows_and_nothing_twice(there: Path, here: Path) -> None:
    source, copies, log = Mirror(there), Copies(here), there / "logs" / "p0.log"
    for words in ("begin\n", "", "go on\n"):
        with log.open("a") as file:
            file.write(words)
        assert copied(source, copies) == (["logs/p0.log"] if words else [])
    assert (here / "logs" / "p0.log").read_text() == "begin\ngo on\n"


def test_a_file_is_copied_when_it_has_been_the_same_for_two_looks_or_at_the_last(there: Path, here: Path) -> None:
    source, copies = Mirror(there, own=("plan.json",)), Copies(here)
    (there / "plan.json").write_text("ours")
    (there / ".checkpoint.tmp").write_text("half")
    (there / "service-times").mkdir()
    (there / "service-times" / "p0.json").write_text("{}")
    (there / "checkpoint").write_bytes(b"12")
    assert copied(source, copies) == []
    (there / "checkpoint").write_bytes(b"1234")
    assert copied(source, copies) == ["service-times/p0.json"]
    assert copied(source, copies) == ["checkpoint"]
    assert copied(source, copies) == []
    (there / "late").write_bytes(b"")
    assert copied(source, copies, last=True) == ["late"]
    names = sorted(path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file())
    assert names == ["checkpoint", "late", "service-times/p0.json"]


def test_what_is_removed_there_is_removed_here_once_what_replaces_it_has_come(there: Path, here: Path) -> None:
    source, copies = Mirror(there), Copies(here)
    (there / "checkpoint-1").write_bytes(b"1")
    copied(source, copies)
    assert copied(source, copies) == ["checkpoint-1"]
    (there / "checkpoint-2").write_bytes(b"2")
    (there / "checkpoint-1").unlink()
    assert copied(source, copies) == []
    assert [path.name for path in here.iterdir()] == ["checkpoint-1"]
    assert copied(source, copies) == ["checkpoint-1", "checkpoint-2"]
    assert [path.name for path in here.iterdir()] == ["checkpoint-2"]
    assert copied(source, copies) == []


def test_nothing_is_removed_here_when_the_folder_there_is_swept(there: Path, here: Path) -> None:
    source, copies = Mirror(there, own=("plan.json",)), Copies(here)
    for name in ("plan.json", "checkpoint-1"):
        (there / name).write_text(name)
    assert copied(source, copies, last=True) == ["checkpoint-1"]
    for path in list(there.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert copied(source, copies, last=True) == []
    assert [path.name for path in here.iterdir()] == ["checkpoint-1"]


def test_no_file_is_removed_here_that_did_not_come_from_there(here: Path) -> None:
    (here / "events.jsonl").write_text("ours")
    with pytest.raises(MessageError, match=r"events\.jsonl: to be removed, but it never came"):
        Copies(here).take(Piece(path="events.jsonl", offset=0, rest=GONE, data=np.empty(0, np.uint8)))
    assert (here / "events.jsonl").read_text() == "ours"


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_large_files_come_in_pieces_and_appear_in_whole(
    there: Path, here: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(mirror, "PIECE_BYTES", 100)
    content = np.random.default_rng(size).bytes(size)
    (there / "checkpoint").write_bytes(content)
    (there / "logs" / "p0.log").write_bytes(content)
    copies, appeared = Copies(here), []
    for piece in Mirror(there).look(last=True):
        copies.take(piece)
        appeared.append((here / "checkpoint").exists())
    whole = max(1, -(-size // 100))
    assert appeared[:whole] == [False] * (whole - 1) + [True]
    assert (here / "checkpoint").read_bytes() == content
    assert not size or (here / "logs" / "p0.log").read_bytes() == content


def test_what_is_half_done_at_the_end_is_nothing(there: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "PIECE_BYTES", 2)
    (there / "checkpoint").write_bytes(b"1234")
    copies = Copies(here)
    copies.take(next(iter(Mirror(there).look(last=True))))
    assert len(list(here.iterdir())) == 1
    copies.close()
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    ["../out", "/etc/x", "logs/../../out", "", ".", "a//b", "a/.b", "plan.json", "a/b/c/d/e", "x\0", "a" * 300, "-x"],
)
def test_nothing_is_written_outside_or_over_files_of_up(here: Path, path: str) -> None:
    piece = Piece(path=path, offset=0, rest=0, data=np.zeros(1, np.uint8))
    with pytest.raises(MessageError, match="bad_piece"):
        Copies(here, own=("plan.json",)).take(piece)
    assert list(here.iterdir()) == []


def test_pieces_that_do_not_follow_one_another_are_refused(here: Path) -> None:
    def piece(offset: int, rest: int) -> Piece:
        return Piece(path="file", offset=offset, rest=rest, data=np.zeros(2, np.uint8))

    copies = Copies(here)
    copies.take(piece(0, 4))
    with pytest.raises(MessageError, match="bytes from 4 on, expected them from 2 on"):
        copies.take(piece(4, 0))
    assert not (here / "file").exists()

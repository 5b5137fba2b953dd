"""Files of another machine and their copies here: the same bytes, as a whole or as a growing log,
and no other files.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from roles import ROLES
from roles.coordination.coordinator import Coordinator
from roles.learning.resume import checkpoint_path
from roles.tuning.tuner import Tuner
from runtime import Actor, ActorSpec, Topology
from runtime.cluster.launchers.allowed import OF_UP as OF_UP_HERE
from runtime.cluster.launchers.allowed import allowed
from runtime.cluster.machines import file_sync
from runtime.cluster.machines.agent_messages import GONE, GROWING, Piece
from runtime.cluster.machines.copies import Copies
from runtime.cluster.machines.file_sync import FileSync
from runtime.errors import MessageError
from runtime.plan.topology import Placement, ProcessSpec

ANY = ("*", "*/*", "*/*/*", "*/*/*/*", "logs/*", "service-times/*")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there" / "logs").mkdir(parents=True)
    return tmp_path / "there"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def copied(source: FileSync, copies: Copies, *, last: bool = False) -> list[str]:
    """Copy what is new; return the names of the files with new bytes."""
    found = list(source.look(last=last))
    for piece in found:
        copies.take(piece)
    return sorted({piece.path for piece in found})


def test_a_log_is_copied_as_it_grows_and_no_byte_twice(there: Path, here: Path) -> None:
    source = FileSync(there)
    copies = Copies(here, ANY)
    log = there / "logs" / "p0.log"
    for words in ("begin\n", "", "go on\n"):
        with log.open("a") as file:
            file.write(words)
        assert copied(source, copies) == (["logs/p0.log"] if words else [])
    assert (here / "logs" / "p0.log").read_text() == "begin\ngo on\n"


def test_a_file_is_copied_when_two_looks_find_it_unchanged_or_at_the_end(
    there: Path, here: Path
) -> None:
    source = FileSync(there, own=("plan.json",))
    copies = Copies(here, ANY)
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


def test_a_file_removed_there_is_removed_here_once_its_replacement_has_come(
    there: Path, here: Path
) -> None:
    source = FileSync(there)
    copies = Copies(here, ANY)
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
    source = FileSync(there, own=("plan.json",))
    copies = Copies(here, ANY)
    for name in ("plan.json", "checkpoint-1"):
        (there / name).write_text(name)
    assert copied(source, copies, last=True) == ["checkpoint-1"]
    for path in list(there.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert copied(source, copies, last=True) == []
    assert [path.name for path in here.iterdir()] == ["checkpoint-1"]


def test_no_file_is_removed_here_that_did_not_come_from_there(here: Path) -> None:
    (here / "events.jsonl").write_text("ours")
    with pytest.raises(
        MessageError, match=r"events\.jsonl: its removal was sent, but not the file itself"
    ):
        Copies(here, ANY).take(
            Piece(path="events.jsonl", offset=0, rest=GONE, data=np.empty(0, np.uint8))
        )
    assert (here / "events.jsonl").read_text() == "ours"


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_large_files_come_in_pieces_and_appear_in_whole(
    there: Path, here: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(file_sync, "PIECE_BYTES", 100)
    content = np.random.default_rng(size).bytes(size)
    (there / "checkpoint").write_bytes(content)
    (there / "logs" / "p0.log").write_bytes(content)
    copies = Copies(here, ANY)
    appeared = []
    for piece in FileSync(there).look(last=True):
        copies.take(piece)
        appeared.append((here / "checkpoint").exists())
    whole = max(1, -(-size // 100))
    assert appeared[:whole] == [False] * (whole - 1) + [True]
    assert (here / "checkpoint").read_bytes() == content
    assert not size or (here / "logs" / "p0.log").read_bytes() == content


def test_a_half_copied_file_is_removed_at_the_end(
    there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sync, "PIECE_BYTES", 2)
    (there / "checkpoint").write_bytes(b"1234")
    copies = Copies(here, ANY)
    copies.take(next(iter(FileSync(there).look(last=True))))
    assert len(list(here.iterdir())) == 1
    copies.close()
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/etc/x",
        "logs/../../out",
        "",
        ".",
        "a//b",
        "a/.b",
        "plan.json",
        "a/b/c/d/e",
        "x\0",
        "a" * 300,
        "-x",
    ],
)
def test_no_file_is_written_outside_the_folder_or_over_files_of_up(here: Path, path: str) -> None:
    piece = Piece(path=path, offset=0, rest=0, data=np.zeros(1, np.uint8))
    with pytest.raises(MessageError, match="bad_piece"):
        Copies(here, ANY, own=("plan.json",)).take(piece)
    assert list(here.iterdir()) == []


def test_pieces_that_do_not_follow_one_another_are_refused(here: Path) -> None:
    def piece(offset: int, rest: int) -> Piece:
        return Piece(path="file", offset=offset, rest=rest, data=np.zeros(2, np.uint8))

    copies = Copies(here, ANY)
    copies.take(piece(0, 4))
    with pytest.raises(MessageError, match="bytes from 4 on, expected them from 2 on"):
        copies.take(piece(4, 0))
    assert not (here / "file").exists()


def of(path: str, rest: int = 0) -> Piece:
    return Piece(path=path, offset=0, rest=rest, data=np.frombuffer(b"theirs", np.uint8))


OF_UP = [
    "operator.key",
    "said.toml",
    "plan.json",
    "config.toml",
    "events.jsonl",
    "trace.json",
    "report.html",
    "log.csv",
]
OF_UP += [
    "Operator.KEY",
    "tensorboard/events",
    "wandb/run.wandb",
    "trials/x",
    "versions.json",
    "usage.jsonl",
    "service-times.json",
]
OF_OTHERS = [
    "best.safetensors",
    "checkpoint-0000001.safetensors",
    "logs/b.log",
    "logs/ray.log",
    "logs/b.stacks",
]
OF_OTHERS += [
    "trace/b.1.json",
    "trace/clocks.json",
    "service-times/b.json",
    "logs/a.log/x",
    "tuning.json",
    "anything",
]


class Leads(Actor):
    writes = ("checkpoint-*.safetensors", "results/*.csv", "*", "logs/*")


class Works(Actor):
    pass


def placement(monkeypatch: pytest.MonkeyPatch) -> Placement:
    """A placement of an importable program: the lead in process `a` of one machine, a worker in `b`
    of another.
    """
    module = ModuleType("borrowing")
    monkeypatch.setattr(module, "ROLES", {"leads": Leads, "works": Works}, raising=False)
    monkeypatch.setitem(sys.modules, "borrowing", module)
    actors = (ActorSpec("lead", "leads", {}), ActorSpec("worker", "works", {}))
    topology = Topology("borrowing", actors, (("lead", "worker"),), "lead")
    return Placement(
        topology, (ProcessSpec("a", "far", ("lead",)), ProcessSpec("b", "further", ("worker",)))
    )


@pytest.mark.parametrize("path", [*OF_UP, *OF_OTHERS])
@pytest.mark.parametrize("rest", [0, 6, GROWING, GONE])
def test_a_machine_writes_neither_a_file_of_up_nor_one_of_another_machine(
    here: Path, monkeypatch: pytest.MonkeyPatch, path: str, rest: int
) -> None:
    topology = placement(monkeypatch).topology
    mine = Placement(
        topology, (ProcessSpec("a", "far", ("worker",)), ProcessSpec("b", "further", ("lead",)))
    )
    with pytest.raises(MessageError, match="bad_piece"):
        Copies(here, allowed(mine)["far"], OF_UP_HERE).take(of(path, rest))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("path", OF_UP)
def test_no_role_can_declare_a_file_of_up(
    here: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with pytest.raises(MessageError, match="is not a file that a machine may leave"):
        Copies(here, allowed(placement(monkeypatch))["far"], OF_UP_HERE).take(of(path))
    assert list(here.iterdir()) == []


def test_a_machine_writes_the_files_of_its_processes_and_those_that_its_roles_declare(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = Copies(here, allowed(placement(monkeypatch))["far"], OF_UP_HERE)
    mine = ["checkpoint-0000001.safetensors", "results/1.csv", "anything", "service-times/a.json"]
    grow = ["logs/a.log", "logs/a.stacks", "trace/a.1.json"]
    for path in mine:
        copies.take(of(path))
        copies.take(of(path))  # a machine may replace its own files
    for path in grow:
        copies.take(of(path, GROWING))
    assert {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()} == {
        *mine,
        *grow,
    }
    with pytest.raises(
        MessageError,
        match=(r"logs/b\.log' is not a file of the processes of " r"this machine, and no role"),
    ):
        copies.take(of("logs/b.log", GROWING))


def test_any_free_name_is_accepted_if_the_roles_of_a_program_declare_no_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leads, "writes", None)
    patterns = allowed(placement(monkeypatch))["far"]
    copies = Copies(here, patterns, OF_UP_HERE)
    for path in ("found", "results/1.csv", "a/b/c/d"):
        copies.take(of(path))
    for path in (
        "logs/b.log",
        "trace/clocks.json",
        "service-times/b.json",
        "operator.key",
        "logs/x/y",
    ):
        with pytest.raises(MessageError, match="bad_piece"):
            copies.take(of(path))


def test_a_file_that_did_not_come_from_a_machine_is_not_replaced_by_it(here: Path) -> None:
    (here / "logs").mkdir()
    for path, rest in (("best.safetensors", 0), ("logs/a.log", GROWING), ("part", 6)):
        (here / path).write_text("ours")
        with pytest.raises(
            MessageError, match=("is here already, and did not come from this machine")
        ):
            Copies(here, ANY).take(of(path, rest))
        assert (here / path).read_text() == "ours"


@pytest.mark.parametrize(
    ("path", "rest"), [("logs/a.log", GROWING), ("file", 0), ("file", GROWING), ("file", 6)]
)
def test_no_link_is_followed(here: Path, tmp_path: Path, path: str, rest: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.log").write_text("ours")
    (here / "logs").symlink_to(outside)
    (here / "file").symlink_to(outside / "a.log")
    with pytest.raises(MessageError, match="is a link here"):
        Copies(here, ANY).take(of(path, rest))
    copies = Copies(here, ANY)
    (here / f".new.{os.getpid()}.half").symlink_to(outside / "a.log")
    with pytest.raises(OSError, match="symbolic links"):
        copies.take(of("new", 6))
    assert [(outside / "a.log").read_text(), *map(str, outside.glob("b*"))] == ["ours"]


def test_the_lead_of_training_may_send_checkpoints_and_a_worker_none() -> None:
    assert Coordinator.writes == ("checkpoint-*.safetensors", "best.safetensors")
    assert checkpoint_path(Path("x"), 7).match(Coordinator.writes[0])
    assert Tuner.writes == ("tuning.json",)
    writing = {name: ROLES[name].writes for name in ROLES if getattr(ROLES[name], "writes", None)}
    assert {*writing.values()} == {Coordinator.writes, Tuner.writes}

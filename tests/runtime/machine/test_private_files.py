"""Secrets and the files of a run directory: they are readable by their owner only, under any umask,
and never written through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.cluster.operators.operator_key import OperatorKey
from runtime.compute.service_times import PARTS, Recorder
from runtime.errors import ConfigError, LaunchError
from runtime.machine import stacks
from runtime.machine.owned import NotOurs
from runtime.machine.private_files import read_secret, replace, write_new
from runtime.report.journal import Journal
from runtime.report.rundir import RunDirectory
from runtime.tracing.trace_part import Part
from runtime.transport.keys import Keys

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
CARD = OperatorKey("127.0.0.1:4000", b"u" * 32, b"p" * 32, b"s" * 32)
KEYS = Keys("secret", b"p" * 32, b"s" * 32, {})


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    """A function that sets the umask until the end of the test."""
    before = os.umask(0o022)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A file that no test may change."""
    path = tmp_path / "precious"
    path.write_text("precious")
    path.chmod(0o644)
    yield path
    assert path.read_text() == "precious"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("mask", [0, 0o022, 0o277, 0o777])
def test_secrets_and_journals_are_for_their_owner_alone_under_any_umask(
    tmp_path: Path, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    KEYS.write(tmp_path / "keys")
    CARD.write(tmp_path / "card")
    Journal(tmp_path / "journal", print).close()
    replace(tmp_path / "plan", b"plan")
    assert Keys.read(tmp_path / "keys") == KEYS
    assert OperatorKey.read(tmp_path / "card") == CARD
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_link_in_the_place_of_a_new_file_is_not_written_through(
    tmp_path: Path, precious: Path
) -> None:
    for name in ("keys", "journal", "part.json", "card", "plan"):
        (tmp_path / name).symlink_to(precious)
    with pytest.raises(FileExistsError):
        KEYS.write(tmp_path / "keys")
    with pytest.raises(NotOurs, match="it is a link"):
        Journal(tmp_path / "journal", print)
    with pytest.raises(NotOurs, match="it is a link"):
        Part(tmp_path / "part.json", "p", 1, ())
    with pytest.raises(OSError, match="symbolic links"):
        stacks._opened(tmp_path / "journal")
    CARD.write(tmp_path / "card")
    replace(tmp_path / "plan", b"plan")
    assert not (tmp_path / "card").is_symlink()
    assert (tmp_path / "plan").read_bytes() == b"plan"


def test_files_of_a_run_directory_take_the_place_of_links(tmp_path: Path, precious: Path) -> None:
    run = RunDirectory(tmp_path, "digits")
    (run.path / "config.toml").symlink_to(precious)
    (run.path / PARTS).mkdir()
    (run.path / PARTS / "p.json").symlink_to(precious)
    run.write("config.toml", "a = 1\n")
    Recorder().leave(run.path, "p")
    run.close()
    assert (run.path / "config.toml").read_text() == "a = 1\n"
    assert not (run.path / PARTS / "p.json").is_symlink()


def test_a_table_of_a_run_that_is_a_link_is_reported_and_not_written(
    tmp_path: Path, precious: Path
) -> None:
    run = RunDirectory(tmp_path, "digits")
    told = []
    run.on_trouble = told.append
    (run.path / "log.csv").symlink_to(precious)
    for iteration in ("1/10", "2/10"):
        run.event("coordinator", "progress", {"iteration": iteration, "loss": 0.5})
    run.close()
    assert told == [
        (f"{run.path}/log.csv: it is a link, expected a file of this user: it is not written")
    ]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_secrets_that_others_may_read_are_refused_with_the_command_that_repairs_them(
    tmp_path: Path, mode: int
) -> None:
    for one, read, error in ((KEYS, Keys.read, LaunchError), (CARD, OperatorKey.read, ConfigError)):
        path = tmp_path / type(one).__name__
        one.write(path)
        path.chmod(mode)
        with pytest.raises(error, match=rf"others may read it \(mode {mode:o}\): chmod 600 {path}"):
            read(path)


@AS_ROOT
def test_secrets_of_another_user_are_refused(tmp_path: Path) -> None:
    for one, read, error in ((KEYS, Keys.read, LaunchError), (CARD, OperatorKey.read, ConfigError)):
        path = tmp_path / type(one).__name__
        one.write(path)
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(error, match="it is another user's file"):
            read(path)


def test_a_secret_may_be_named_by_a_link_but_not_be_a_pipe_folder_or_large_file(
    tmp_path: Path,
) -> None:
    CARD.write(tmp_path / "card")
    (tmp_path / "current").symlink_to("card")
    assert OperatorKey.read(tmp_path / "current") == CARD
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="it is not a regular file"):
            OperatorKey.read(path)
    write_new(tmp_path / "large", bytes(101))
    with pytest.raises(OSError, match="found 101 bytes, expected at most 100"):
        read_secret(tmp_path / "large", 100)


def test_a_file_that_cannot_be_replaced_leaves_no_partial_file(tmp_path: Path) -> None:
    (tmp_path / "plan" / "below").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        replace(tmp_path / "plan", b"plan")
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]

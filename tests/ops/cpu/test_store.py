"""The folder for compiled kernels: it holds code of this user only, no other user can replace it,
and no file of others is removed. A fault of the folder is logged and ends no run."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cpu.codegen import owned, store
from ops.cpu.codegen.compiled import addresses_now
from ops.cpu.codegen.store import Kept, alone, kept, place, seen
from tests.helpers.support import ROOT, environment

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
LONG_AGO = time.time() - 31 * 86400
COMPUTES = """
import logging
logging.basicConfig(format="%(message)s")
import numpy as np
from ops import get_backend
x = np.ones((8, 8), np.float32)
print(get_backend("cpu").dense_forward(x, x, None)[0, 0])
"""


class Machine:
    """The folders of one user, and the log."""

    def __init__(self, folder: Path, told: pytest.LogCaptureFixture) -> None:
        self.home = folder / "home"
        self.temporary = folder / "tmp"
        self._told = told
        self.home.mkdir(mode=0o755)
        self.temporary.mkdir(mode=0o700)

    @property
    def kernels(self) -> Path:
        return self.home / ".cache" / "convoy" / "kernels"

    @property
    def fallback(self) -> Path:
        return self.temporary / f"convoy-kernels-{os.geteuid()}"

    @property
    def told(self) -> list[str]:
        return [
            record.getMessage()
            for record in self._told.records
            if record.levelno == logging.WARNING
        ]


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Machine]:
    """A machine without kept kernels, on which the folder is not chosen yet."""
    before = os.umask(0o022)
    made = Machine(tmp_path, caplog)
    for name in ("XDG_CACHE_HOME", store.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
    place.cache_clear()
    store._tell_once.cache_clear()
    yield made
    os.umask(before)
    place.cache_clear()


def keep(name: str, code: bytes) -> bytes | None:
    """Return the code kept under `name`. If there is none, keep `code` and return None."""
    with alone(name) as found:
        assert found is not None
        there = found.read()
        if there is None:
            found.write(code)
        return there


def old(folder: Path) -> Path:
    """A folder of an earlier version, unused for a month."""
    owned.make_folder(folder)
    (folder / "loops-add.o").write_bytes(b"code")
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def test_kernels_are_kept_at_home_for_their_owner_alone_whatever_the_umask_is(
    machine: Machine,
) -> None:
    os.umask(0)
    assert keep("a", b"code") is None
    assert keep("a", b"other") == b"code"
    assert seen("a")
    assert kept("a*")
    assert place().folder is not None
    assert place().folder.parent == machine.kernels
    made = [machine.home / ".cache", *(machine.home / ".cache").rglob("*")]
    assert [path for path in made if path.stat().st_mode & 0o077] == []
    assert machine.told == []


def test_only_marked_folders_of_unused_versions_are_swept(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "data"
    top.mkdir(mode=0o755)
    left, held, fresh = (old(top / (letter * 16)) for letter in "abc")
    os.utime(fresh)
    private = old(top / "convoy-sockets-1-x")  # marked, but not a folder of kernels
    unmarked = top / ("d" * 16)
    thesis = top / "thesis"
    for mine in (unmarked, thesis):
        mine.mkdir(mode=0o700)
        (mine / "chapter").touch()
        os.utime(mine, (LONG_AGO, LONG_AGO))
    (top / ("e" * 16)).symlink_to(thesis)
    monkeypatch.setenv(store.VARIABLE, str(top))
    hold = owned.Hold.take(held, shared=True)
    assert hold is not None
    assert keep("a", b"code") is None
    hold.release()
    assert not left.exists()
    assert all(
        path.exists() for path in (held, fresh, private, unmarked / "chapter", thesis / "chapter")
    )
    assert machine.told == []


def test_a_given_folder_that_cannot_be_used_is_logged_once(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "file"))
    assert keep("a", b"code") is None
    assert keep("a", b"code") == b"code"
    (told,) = machine.told
    assert told.startswith(f"CONVOY_KERNEL_CACHE: no kernels are kept in {tmp_path}/file: ")
    assert told.endswith(f"; they are kept in {machine.fallback}")


@pytest.mark.parametrize("home", ["unknown", "a file", "read only"])
def test_without_a_home_kernels_are_kept_in_the_temporary_folder_and_nothing_is_logged(
    machine: Machine, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home == "unknown":
        monkeypatch.setattr(
            Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home directory"))
        )
    elif home == "a file":
        machine.home.rmdir()
        machine.home.touch()
    else:
        real = Path.mkdir

        def mkdir(path: Path, *arguments: int, **more: int) -> None:
            if machine.home in path.parents:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            real(path, *arguments, **more)

        monkeypatch.setattr(Path, "mkdir", mkdir)
    assert keep("a", b"code") is None
    assert keep("a", b"code") == b"code"
    assert place().folder is not None
    assert place().folder.parent == machine.fallback
    assert machine.told == []


def test_where_no_kernel_can_be_kept_each_process_compiles_in_memory_and_logs_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.home.rmdir()
    machine.home.touch()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(machine.home)])
    assert keep("a", b"code") is None
    assert keep("a", b"code") is None
    assert not seen("a")
    assert not kept("*")
    assert machine.told == [f"there is no folder to keep kernels in; {store.NOWHERE}"]


@AS_ROOT
@pytest.mark.parametrize("whose", ["folder", "link", "parent", "code"])
def test_code_of_another_user_is_neither_loaded_nor_replaced(machine: Machine, whose: str) -> None:
    assert keep("a", b"code") is None
    folder = place().folder
    assert folder is not None
    theirs = {"folder": folder, "link": folder, "parent": machine.kernels, "code": folder / "a.o"}[
        whose
    ]
    if whose == "link":
        folder.rename(machine.kernels / "elsewhere")
        folder.symlink_to("elsewhere")
    os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
    place.cache_clear()
    assert keep("a", b"mine") is None
    assert (folder / "a.o").read_bytes().endswith(b"code") or whose == "code"
    (told,) = machine.told
    assert "another user's" in told or "it is a link" in told
    assert whose == "code" or told.endswith(f"; they are kept in {machine.fallback}")


def test_a_folder_that_others_may_replace_is_not_used_and_that_is_logged(machine: Machine) -> None:
    (machine.home / ".cache").mkdir()
    (machine.home / ".cache").chmod(0o777)
    assert keep("a", b"code") is None
    (told,) = machine.told
    assert f"{machine.home}/.cache: others may write to it (mode 777)" in told
    assert told.endswith(f"; they are kept in {machine.fallback}")


def test_a_folder_of_another_user_in_place_of_the_fallback_is_passed_by(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o777)
    precious.chmod(0o777)
    (precious / ("f" * 16)).mkdir()
    os.utime(precious / ("f" * 16), (LONG_AGO, LONG_AGO))
    machine.fallback.symlink_to(precious)
    machine.home.rmdir()
    machine.home.touch()
    assert keep("a", b"code") is None
    assert place().folder is not None
    assert place().folder.parent == machine.fallback.with_name(f"{machine.fallback.name}-2")
    assert [path.name for path in precious.iterdir()] == ["f" * 16]


def test_a_lock_and_code_that_are_links_are_not_followed(machine: Machine, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    keep("a", b"code")
    folder = place().folder
    assert folder is not None
    (folder / "b.lock").symlink_to(precious)
    (folder / "c.o").symlink_to(precious)
    assert keep("b", b"code") is None
    assert keep("c", b"mine") is None
    assert keep("c", b"") == b"mine"
    assert precious.read_text() == "precious"
    assert len(machine.told) == 2
    assert all("it is a link" in told for told in machine.told)


def test_a_folder_without_a_marker_is_neither_used_nor_removed(machine: Machine) -> None:
    keep("a", b"code")
    folder = place().folder
    assert folder is not None
    (folder / owned.MARKER).unlink()
    place.cache_clear()
    assert keep("a", b"mine") is None
    assert (folder / "a.o").read_bytes().endswith(b"code")
    assert "Convoy did not make it" in machine.told[0]


def test_a_folder_that_is_removed_meanwhile_is_made_again(machine: Machine) -> None:
    keep("a", b"code")
    shutil.rmtree(machine.home / ".cache")
    assert not kept("*")
    assert keep("b", b"code") is None
    assert keep("b", b"mine") == b"code"
    with alone("c") as found:
        shutil.rmtree(machine.home / ".cache")
        assert found is not None
        assert found.read() is None
        found.write(b"code")
    (told,) = machine.told
    assert "No such file or directory: kernels are compiled, but not kept there" in told


def test_code_is_loaded_though_it_could_not_be_kept_on_a_full_disk(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, flags: int, mode: int = 0o600) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    place()
    monkeypatch.setattr(store, "open_file", full)
    for _ in range(2):
        assert keep("a", b"code") is None
    assert machine.told == [
        f"{place().folder}: No space left on device: kernels are compiled, but not kept there"
    ]  # fmt: skip


def test_a_file_that_was_truncated_by_a_full_disk_counts_as_missing(machine: Machine) -> None:
    keep("a", b"code")
    folder = place().folder
    assert folder is not None
    (folder / "a.o").write_bytes(b"")
    assert keep("a", b"code") is None
    assert keep("a", b"mine") == b"code"
    assert sorted(path.name for path in folder.iterdir()) == [".convoy", "a.lock", "a.o"]


@pytest.mark.parametrize("number", owned.WITHOUT_LOCKS)
def test_on_a_file_system_without_locks_kernels_are_still_kept(
    machine: Machine, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(owned.fcntl, "flock", flock)  # type: ignore[attr-defined]
    assert keep("a", b"code") is None
    assert keep("a", b"mine") == b"code"
    assert machine.told == []


def test_a_name_in_the_hands_of_another_process_is_not_compiled_twice(machine: Machine) -> None:
    with alone("a"):
        assert addresses_now("a", lambda: b"", wait=False) is None


def test_kernels_without_a_folder_have_a_short_name() -> None:
    assert repr(Kept(None, "a")) == "<kernel in None>"


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["no home", "removed again and again"])
def test_kernels_are_compiled_and_run_whatever_becomes_of_their_folder(
    tmp_path: Path, harm: str
) -> None:
    variables = environment() | {
        "CONVOY_KERNEL_CACHE": str(tmp_path / "kernels"),
        "TMPDIR": str(tmp_path),
    }
    before: list[str] = []
    if harm == "no home":
        del variables["CONVOY_KERNEL_CACHE"]
        variables.pop("HOME", None)
        variables.pop("XDG_CACHE_HOME", None)
        before = ["unshare", "-U", "--map-user=54321", "--map-group=54321"]
        if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no user namespaces here")
    command = [*before, sys.executable, "-c", COMPUTES]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, cwd=ROOT, env=variables, stdout=pipe, stderr=pipe, text=True)
        for _ in "ab"
    ]
    if harm != "no home":
        while any(process.poll() is None for process in running):
            shutil.rmtree(tmp_path / "kernels", ignore_errors=True)
    for process in running:
        out, errors = process.communicate()
        assert (process.returncode, out) == (0, "8.0\n"), errors
        assert "Traceback" not in errors
        assert harm != "no home" or errors == ""

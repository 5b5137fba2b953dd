"""The private folder of a run: it is removed once no process uses it, and never while another run
on any host uses it.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.errors import LaunchError
from runtime.machine import owned, private
from runtime.machine.private import HOST, PrivateFolder
from tests.helpers.support import ROOT, environment

MAKER = """
import sys
from runtime.machine.private import PrivateFolder
made = PrivateFolder.make()
(made.path / "supervisor.keys").write_text("keys")
print(made.path, flush=True)
sys.stdin.read()
"""
REMOVER = [sys.executable, "-m", "runtime.machine.private"]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder for the test alone, so that it sweeps no folder of this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def maker(*before: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A process with a private folder that it never removes."""
    command = [*before, sys.executable, "-c", MAKER]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment() | {"TMPDIR": tempfile.gettempdir()},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().decode().strip())


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def left_by(path: Path, *, boot: str, host: str) -> Path:
    """A folder that a dead run has left, on the host and with the boot id given here."""
    owned.make_folder(path)
    (path / "supervisor.keys").write_text("keys")
    (path / HOST).write_text(f"{boot}\n{host}")
    return path


def test_a_private_folder_has_a_short_name_a_marker_and_no_access_for_others_under_any_umask(
    temporary: Path,
) -> None:
    before = os.umask(0o777)
    try:
        made = PrivateFolder.make()
    finally:
        os.umask(before)
    assert made.path.parent == temporary
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert made.path.name.startswith(f"convoy-sockets-{os.getpid()}-")
    assert len(made.path.name) < 40  # a socket's path has room for 107 bytes
    made.remove()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_run_is_swept_when_the_next_begins(temporary: Path) -> None:
    process, left = maker()
    with process:
        PrivateFolder.make().remove()
        assert (left / "supervisor.keys").exists()
        killed(process)
    PrivateFolder.make().remove()
    assert not left.exists()


def test_the_folder_of_a_run_in_another_pid_namespace_is_not_swept(
    temporary: Path,
) -> None:
    """As with two containers that share /tmp: the lock counts, and the process number does not."""
    process, made = maker()
    with process:
        elsewhere = made.rename(temporary / "convoy-sockets-99999999999999999999-x")
        PrivateFolder.make().remove()
        assert (elsewhere / "supervisor.keys").exists()
        killed(process)
    PrivateFolder.make().remove()
    assert not elsewhere.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a PID namespace")
def test_a_run_in_a_real_pid_namespace_keeps_its_folder_while_another_run_starts(
    temporary: Path,
) -> None:
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespaces here")
    process, made = maker(*inside)
    with process:
        assert "-1-" in made.name
        PrivateFolder.make().remove()
        assert (made / "supervisor.keys").exists()
        process.communicate()  # it ends by itself
    PrivateFolder.make().remove()
    assert not made.exists()


def test_folders_of_another_host_are_left_and_those_of_this_host_or_kernel_are_swept(
    temporary: Path,
) -> None:
    boot, host = private._here()
    assert boot
    same_kernel = left_by(temporary / "convoy-sockets-1-a", boot=boot, host="container-7")
    same_host = left_by(temporary / "convoy-sockets-1-b", boot="before-the-restart", host=host)
    other = left_by(temporary / "convoy-sockets-1-c", boot="another", host="another")
    unknown = left_by(temporary / "convoy-sockets-1-d", boot="", host="")
    unsaid = left_by(temporary / "convoy-sockets-1-e", boot=boot, host=host)
    (unsaid / HOST).unlink()
    PrivateFolder.make().remove()
    assert [path.exists() for path in (same_kernel, same_host, other, unknown, unsaid)] == [
        False,
        False,
        *[True] * 3,
    ]


def test_folders_without_a_marker_links_and_files_are_left_and_stop_no_run(temporary: Path) -> None:
    precious = temporary / "precious"
    precious.mkdir()
    (precious / "data").touch()
    old = temporary / "convoy-sockets-1-old"
    old.mkdir(mode=0o700)
    (old / "supervisor.control").touch()
    (temporary / "convoy-sockets-1-link").symlink_to(precious)
    (temporary / "convoy-sockets-1-dangling").symlink_to(temporary / "nowhere")
    (temporary / "convoy-sockets-1-file").touch()
    before = sorted(temporary.iterdir())
    PrivateFolder.make().remove()
    assert sorted(temporary.iterdir()) == before
    assert (precious / "data").exists()
    assert (old / "supervisor.control").exists()


def test_the_folder_of_an_ended_process_is_removed_from_outside(temporary: Path) -> None:
    process, left = maker()
    mine = PrivateFolder.make()
    with process, subprocess.Popen([*REMOVER, str(process.pid)], cwd=ROOT) as removing:
        assert left.exists()
        process.communicate()
        assert removing.wait(20) == 0
    assert not left.exists()
    assert mine.path.exists()
    mine.remove()


def test_a_dead_process_with_the_same_number_does_not_cost_another_run_its_folder(
    temporary: Path,
) -> None:
    process, made = maker()
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    with process:
        same_number = made.rename(temporary / f"convoy-sockets-{dead.pid}-x")
        assert private.remove(dead.pid)
        assert (same_number / "supervisor.keys").exists()
        killed(process)
    assert private.remove(dead.pid)
    assert not same_number.exists()


def test_a_process_that_does_not_end_keeps_its_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "END_SECONDS", 0.01)
    process, made = maker()
    with process:
        process.send_signal(signal.SIGSTOP)
        assert not private.remove(process.pid)
        assert made.exists()
        killed(process)


def test_a_role_process_discards_only_a_folder_that_is_marked(temporary: Path) -> None:
    mine = PrivateFolder.make()
    other = temporary / "thesis"
    other.mkdir(mode=0o700)
    (other / "chapter").touch()
    (temporary / "link").symlink_to(mine.path)
    for path in (other, temporary / "link", temporary / "none"):
        private.discard(path)
    assert (other / "chapter").exists()
    assert mine.path.exists()
    private.discard(mine.path)
    assert not mine.path.exists()


@pytest.mark.parametrize("name", ["caf\udce9", "two\nlines"])
def test_a_temporary_folder_whose_name_no_address_can_hold_is_an_error_with_advice(
    name: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / name))
    with pytest.raises(LaunchError, match=r"bytes that are not UTF-8: set TMPDIR to another"):
        PrivateFolder.make()
    assert list((temporary / name).iterdir()) == []


def test_a_temporary_folder_that_cannot_be_written_to_is_an_error_with_advice(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    with pytest.raises(
        LaunchError,
        match=(r"gone.*no folder for the run can be made: No such " r"file.*set TMPDIR to a"),
    ):
        PrivateFolder.make()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(temporary / "gone")])
    with pytest.raises(
        LaunchError,
        match=(r"No usable temporary directory found in.*set " r"TMPDIR to a folder that this"),
    ):
        PrivateFolder.make()


def test_a_tmpdir_that_is_unusable_or_that_others_may_change_is_reported(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for well in (temporary, temporary / ".." / temporary.name):
        monkeypatch.setenv("TMPDIR", str(well))
        assert private.doubts() == ""
    monkeypatch.setenv("TMPDIR", str(temporary / "gone"))
    text = (
        f"TMPDIR is {temporary}/gone, where no file can be made: the private folder of "
        f"the run lies in {temporary}"
    )
    assert private.doubts() == text
    monkeypatch.delenv("TMPDIR")
    temporary.chmod(0o777)
    assert "and another user can replace it" in private.doubts()
    assert "others may write to it (mode 777)" in private.doubts()

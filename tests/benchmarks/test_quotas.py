"""Slow processors: the groups that are made for them in both versions of control groups, and their
processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.helpers import quotas as quotas_module
from benchmarks.helpers.machines import Machine, Refused
from benchmarks.helpers.quotas import PROCESSES, Quota, quotas
from benchmarks.hosts.lives import Bench
from tests.helpers.far_machines import or_skip

BUSY = "import sys\nprint('in', flush=True)\nwhile True: pass"


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "ENDING", 0.0)


def first_version(root: Path) -> Path:
    """Control groups of version 1, with this process in `mine`. Returns the list of its groups."""
    (root / "cpu" / "mine").mkdir(parents=True)
    for folder in (root / "cpu", root / "cpu" / "mine"):
        (folder / PROCESSES).write_text("")
    own = root / "own"
    own.write_text("4:cpu,cpuacct:/mine\n1:name=systemd:/other\n0::/\n")
    return own


def second_version(root: Path) -> Path:
    """Control groups of version 2, with this process in `mine`. Returns the list of its groups."""
    (root / "mine").mkdir(parents=True)
    (root / "mine" / PROCESSES).write_text("")
    (root / "cgroup.controllers").write_text("cpu memory\n")
    (root / "cgroup.subtree_control").write_text("memory\n")
    own = root / "own"
    own.write_text("0::/mine\n")
    return own


def limits(quota: Quota) -> dict[str, str]:
    """The files of a group."""
    return {file.name: file.read_text() for file in quota.folder.iterdir()}


def emptied(quota: Quota) -> None:
    """Remove the files of a group, which the kernel removes with its folder."""
    for file in quota.folder.iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("tree", "folder", "slow", "free"),
    [
        (
            first_version,
            "cpu",
            {"cpu.cfs_period_us": "5000", "cpu.cfs_quota_us": "1000"},
            {"cpu.cfs_period_us": "5000", "cpu.cfs_quota_us": "-1"},
        ),
        (second_version, ".", {"cpu.max": "1000 5000"}, {"cpu.max": "max 5000"}),
    ],
)
def test_each_machine_gets_a_group_that_is_slow_when_asked_and_is_removed_at_the_end(
    tree: Callable[[Path], Path],
    folder: str,
    slow: dict[str, str],
    free: dict[str, str],
    tmp_path: Path,
) -> None:
    own = tree(tmp_path)
    with quotas(2, 5, tmp_path, own) as made:
        assert len({quota.folder for quota in made}) == 2
        for quota in made:
            assert quota.folder.parent == tmp_path / folder
            assert limits(quota) == free
            with quota.slowed():
                assert limits(quota) == slow
            assert limits(quota) == free
            emptied(quota)
    assert not [quota for quota in made if quota.folder.exists()]


def test_the_second_version_passes_the_processor_on_to_its_groups(tmp_path: Path) -> None:
    own = second_version(tmp_path)
    with quotas(1, 5, tmp_path, own) as made:
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
        emptied(made[0])


@pytest.mark.parametrize("tree", [first_version, second_version])
def test_this_process_enters_a_group_and_returns_to_its_own(
    tree: Callable[[Path], Path], tmp_path: Path
) -> None:
    own = tree(tmp_path)
    with quotas(1, 5, tmp_path, own) as (made,):
        with made.inside():
            assert made.pids() == {os.getpid()}
            assert not (made.home / PROCESSES).read_text()
        assert made.home.name == "mine"
        assert (made.home / PROCESSES).read_text() == str(os.getpid())
        emptied(made)


def test_without_control_groups_quotas_are_refused_with_the_reason(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    with (
        pytest.raises(Refused, match="has no control groups with 'cpu'"),
        quotas(1, 5, tmp_path, own),
    ):
        pass


def test_a_quota_that_is_not_allowed_is_refused_and_its_group_is_removed(tmp_path: Path) -> None:
    own = second_version(tmp_path)
    (tmp_path / "cgroup.subtree_control").unlink()
    (tmp_path / "cgroup.subtree_control").mkdir()
    with (
        pytest.raises(Refused, match=r"no quota of a processor: .*subtree_control"),
        quotas(1, 5, tmp_path, own),
    ):
        pass
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        "mine",
        "cgroup.subtree_control",
    }


def test_a_group_that_has_to_stay_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = first_version(tmp_path)
    with quotas(1, 5, tmp_path, own) as (made,):
        pass  # its files keep the folder, as a process keeps a group
    assert f"{made.folder} cannot be removed" in capsys.readouterr().out


def test_a_process_on_a_machine_but_not_on_its_core_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = first_version(tmp_path)
    monkeypatch.setattr(Machine, "pids", lambda at: {1, 2, 3})
    with quotas(1, 5, tmp_path, own) as made:
        (made[0].folder / PROCESSES).write_text("1\n3\n7\n")
        assert Bench([Machine("n", "a")], made, tmp_path).outside() == [2]
        emptied(made[0])


def test_a_command_and_its_children_use_up_their_part_of_a_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas_module, "ENDING", 60.0)
    with or_skip(quotas(1, 20)) as (made,), made.slowed():
        command = [*made.before, "sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", BUSY]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            assert len(made.pids()) == 2  # the shell and Python
            deadline = time.monotonic() + 60
            while made.periods()[1] < 3:
                assert time.monotonic() < deadline
        finally:
            os.killpg(process.pid, 9)
            process.communicate()
    assert not made.folder.exists()

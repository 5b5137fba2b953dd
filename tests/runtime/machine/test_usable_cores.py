"""The cores that a process may use: control groups of both versions, nested, fractional and
changing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.machine import usable_cores
from runtime.machine.usable_cores import EVERY, limits, quota, usable

V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V1_ALONE = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
V1_MEMORY = "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
HYBRID = "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
DOCKER = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup ro,cpu"
BLANK = "31 23 0:28 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw"
AT2 = "sys/fs/cgroup"
AT1 = "sys/fs/cgroup/cpu"

# mounts, /proc/self/cgroup, files of the groups, the quota
Tree = tuple[list[str], list[str], Mapping[str, str], float]


def v1(share: object, period: object = 100_000, at: str = AT1) -> dict[str, str]:
    return {f"{at}/cpu.cfs_quota_us": f"{share}\n", f"{at}/cpu.cfs_period_us": f"{period}\n"}


def v2(text: str, at: str = AT2) -> dict[str, str]:
    return {f"{at}/cpu.max": f"{text}\n"}


TREES: dict[str, Tree] = {
    "no files at all": ([], [], {}, EVERY),
    "version 2 without a quota": ([V2], ["0::/"], v2("max 100000"), EVERY),
    "version 2, the root group has no file": ([V2], ["0::/"], {}, EVERY),
    "version 2, one CPU": ([V2], ["0::/a"], v2("100000 100000", f"{AT2}/a"), 1.0),
    "version 2, one and a half": ([V2], ["0::/a"], v2("150000 100000", f"{AT2}/a"), 1.5),
    "version 2, half a CPU": ([V2], ["0::/a"], v2("50000 100000", f"{AT2}/a"), 0.5),
    "version 2, a short period": ([V2], ["0::/a"], v2("20000 5000", f"{AT2}/a"), 4.0),
    "version 2, in a namespace": ([V2], ["0::/"], v2("300000 100000"), 3.0),
    "version 2, the group around it has less": (
        [V2],
        ["0::/a/b"],
        {**v2("400000 100000", f"{AT2}/a/b"), **v2("200000 100000", f"{AT2}/a")},
        2.0,
    ),
    "version 2, the group around it has more": (
        [V2],
        ["0::/a/b"],
        {**v2("200000 100000", f"{AT2}/a/b"), **v2("400000 100000", f"{AT2}/a")},
        2.0,
    ),
    "version 2, only the third group out has one": (
        [V2],
        ["0::/a/b/c/d"],
        {**v2("max 100000", f"{AT2}/a/b/c/d"), **v2("250000 100000", f"{AT2}/a")},
        2.5,
    ),
    "version 2, a sibling's quota": (
        [V2],
        ["0::/a"],
        {**v2("max 100000", f"{AT2}/a"), **v2("100000 100000", f"{AT2}/b")},
        EVERY,
    ),
    "version 2, outside of its namespace": ([V2], ["0::/../other"], v2("200000 100000"), 2.0),
    "version 2, a group that ended": ([V2], ["0::/gone/there"], v2("200000 100000"), 2.0),
    "version 2, a mount with a blank": (
        [BLANK],
        ["0::/a"],
        v2("100000 100000", "sys/fs/my groups/a"),
        1.0,
    ),
    "version 2, a group with a colon": ([V2], ["0::/a:b"], v2("100000 100000", f"{AT2}/a:b"), 1.0),
    "version 2, a file with nonsense": ([V2], ["0::/a"], v2("soon never", f"{AT2}/a"), EVERY),
    "version 2, an empty file": ([V2], ["0::/a"], {f"{AT2}/a/cpu.max": ""}, EVERY),
    "version 2, a quota without a period": ([V2], ["0::/a"], v2("100000", f"{AT2}/a"), EVERY),
    "version 1 without a quota": ([V1_ALONE], ["4:cpu:/"], v1(-1), EVERY),
    "version 1, one CPU": ([V1_ALONE], ["4:cpu:/a"], v1(100_000, at=f"{AT1}/a"), 1.0),
    "version 1, one and a half": ([V1_ALONE], ["4:cpu:/a"], v1(75_000, 50_000, f"{AT1}/a"), 1.5),
    "version 1, with accounts": (
        [V1],
        ["4:cpu,cpuacct:/a"],
        v1(200_000, at="sys/fs/cgroup/cpu,cpuacct/a"),
        2.0,
    ),
    "version 1, only memory": ([V1_MEMORY], ["4:memory:/a"], {}, EVERY),
    "version 1, the CPU set is not the CPU": (
        [V1_ALONE],
        ["5:cpuset:/a", "4:cpu:/"],
        v1(100_000, at=f"{AT1}/a"),
        EVERY,
    ),
    "version 1, Docker shows its own group as the top": (
        [DOCKER],
        ["4:cpu:/docker/abc"],
        v1(100_000),
        1.0,
    ),
    "version 1, nested in Docker": (
        [DOCKER],
        ["4:cpu:/docker/abc/job"],
        {**v1(-1, at=f"{AT1}/job"), **v1(300_000)},
        3.0,
    ),
    "version 1, a group that Docker does not show": (
        [DOCKER],
        ["4:cpu:/"],
        v1(150_000),
        1.5,
    ),
    "version 1, the group around it has less": (
        [V1_ALONE],
        ["4:cpu:/a/b"],
        {**v1(400_000, at=f"{AT1}/a/b"), **v1(100_000, at=f"{AT1}/a")},
        1.0,
    ),
    "both versions, version 1 has it": (
        [V1_ALONE, HYBRID],
        ["4:cpu:/a", "0::/a"],
        v1(100_000, at=f"{AT1}/a"),
        1.0,
    ),
    "both versions, version 2 has it": (
        [V1_ALONE, HYBRID],
        ["4:cpu:/", "0::/a"],
        {**v1(-1), **v2("200000 100000", "sys/fs/cgroup/unified/a")},
        2.0,
    ),
}


def made(tree: Tree, folder: Path) -> Path:
    mounts, groups, files, _ = tree
    texts = {"proc/self/mountinfo": "\n".join(mounts), "proc/self/cgroup": "\n".join(groups)}
    for name, text in {**texts, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize("name", TREES)
def test_the_quota_is_the_least_of_all_groups_around_this_process(
    name: str, tmp_path: Path
) -> None:
    assert quota(made(TREES[name], tmp_path)) == TREES[name][-1]


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, 1), (1.5, 1), (0.2, 1), (2.0, 2), (3.99, 3), (64.0, 4)]
)
def test_a_fraction_of_a_cpu_is_no_core_but_there_is_always_one(
    share: float, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 8, 9}, raising=False)
    files = v2(f"{int(share * 100_000)} 100000", f"{AT2}/a")
    assert usable(made(([V2], ["0::/a"], files, share), tmp_path)) == [3, 5, 8, 9][:expected]


def test_a_quota_that_changes_counts_from_then_on(tmp_path: Path) -> None:
    system = made(([V2], ["0::/a"], v2("100000 100000", f"{AT2}/a"), 1.0), tmp_path)
    assert quota(system) == 1.0
    (tmp_path / AT2 / "a" / "cpu.max").write_text("max 100000\n")
    assert quota(system) == EVERY


def test_the_limit_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    free = made(TREES["version 2 without a quota"], tmp_path / "free")
    tight = made(TREES["version 2, one and a half"], tmp_path / "tight")
    assert limits(free) == "the affinity mask allows 3 of 8 CPUs"
    assert limits(tight) == "a control group allows 1.5 of 8 CPUs"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert limits(free) == ""


@contextmanager
def group_of_one_cpu() -> Iterator[Path]:
    """A real control group with a quota of one CPU. Skips the test where none can be made."""
    for version, _, top in usable_cores._mounts(Path("/")):
        group = top / f"convoy-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if version == 2:
                (group / "cpu.max").write_text("100000 100000")
            else:
                (group / "cpu.cfs_period_us").write_text("100000")
                (group / "cpu.cfs_quota_us").write_text("100000")
        except OSError:
            group.rmdir()
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    pytest.skip("no control group with a CPU quota can be made here")


def test_a_process_in_a_real_group_of_one_cpu_uses_one_core() -> None:
    look = (
        "import sys, pathlib, os; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
        "from runtime.machine.usable_cores import usable, quota; print(len(usable()), quota())"
    )
    with group_of_one_cpu() as group:
        found = subprocess.run(
            [sys.executable, "-c", look, str(group / "cgroup.procs")],
            capture_output=True,
            text=True,
            check=True,
        )
    assert found.stdout.split() == ["1", "1.0"]

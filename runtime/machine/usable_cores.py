"""The cores of this machine that this process may use.

They are those of its affinity mask (taskset, cpusets, Slurm), and at most as many as the CPU quotas
of its control groups pay for (containers, `docker --cpus`, Kubernetes limits, systemd's CPUQuota).
A quota lets threads run on all cores, and stops them all when it is used up. So more threads than
the quota pays for make each other wait: 3 to 8 times slower on two cores.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SYSTEM = Path("/")
EVERY = math.inf  # the quota of a process whose groups have none


def usable(system: Path = SYSTEM) -> list[int]:
    """Return the numbers of the cores that this process may use, at least one. `system`: the folder
    with proc/self of this process and with the file systems that are mounted there."""
    cores = allowed()
    return cores[: max(1, math.floor(min(quota(system), len(cores))))]


def allowed() -> list[int]:
    """Return the cores of the affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def quota(system: Path = SYSTEM) -> float:
    """Return the number of CPUs for which the control groups of this process pay: the least of its
    group and of the groups around it, EVERY without a quota."""
    return min((found for group in _groups(system) for found in _quotas(group)), default=EVERY)


def limits(system: Path = SYSTEM) -> str:
    """Return what limits the cores of this process, as a clause; "" if it may use all."""
    there = os.cpu_count() or 1
    mask = len(allowed())
    paid = quota(system)
    if paid < mask:
        return f"a control group allows {paid:g} of {there} CPUs"
    return f"the affinity mask allows {mask} of {there} CPUs" if mask < there else ""


def _groups(system: Path) -> Iterator[Path]:
    """The folders of the control groups of this process that may have a CPU quota, of both
    versions, each followed by the groups around it."""
    paths = dict(_paths(system))
    for version, root, mount in _mounts(system):
        path = PurePosixPath(paths.get(version, "/"))
        # a namespace may show a group that is not below what is mounted here
        inside = path.relative_to(root) if path.is_relative_to(root) else PurePosixPath()
        if ".." in inside.parts:
            inside = PurePosixPath()
        for part in (inside, *inside.parents):
            yield mount / part


def _paths(system: Path) -> Iterator[tuple[int, str]]:
    """The version and path of each control group of this process that is about CPUs."""
    for line in _lines(system / "proc/self/cgroup"):
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            yield 2, path
        elif "cpu" in controllers.split(","):
            yield 1, path


def _mounts(system: Path) -> Iterator[tuple[int, str, Path]]:
    """The version of each mounted tree of control groups about CPUs, the group at its top, and its
    folder."""
    for line in _lines(system / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields = before.split()
        kind, _, options = (*after.split(), "", "", "")[:3]
        version = 2 if kind == "cgroup2" else 1 if "cpu" in options.split(",") else 0
        if version and kind.startswith("cgroup") and len(fields) > 4:
            yield version, _plain(fields[3]), system / _plain(fields[4]).lstrip("/")


def _plain(text: str) -> str:
    """A path of mountinfo, which has octal codes in place of blanks, tabs and backslashes."""
    for code in (" ", "\t", "\n", "\\"):
        text = text.replace(f"\\{ord(code):03o}", code)
    return text


def _quotas(group: Path) -> Iterator[float]:
    """The quota of one group, if it has one."""
    for line in _lines(group / "cpu.max"):
        share, period = (*line.split(), "")[:2]
        yield from _cpus(share, period)
    for line in _lines(group / "cpu.cfs_quota_us"):
        yield from _cpus(line, "".join(_lines(group / "cpu.cfs_period_us")))


def _cpus(share: str, period: str) -> Iterator[float]:
    if share.isdecimal() and period.isdecimal() and int(share) and int(period):
        yield int(share) / int(period)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []  # another system, or a group that ended

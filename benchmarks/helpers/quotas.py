"""Slow processors: control groups whose processes together have a part of a core.

A group may compute for QUOTA in each period, and waits for the rest of it. The kernel allows no
shorter quota, so a fifth of a core is 1 ms in every 5 ms. Children of a process are in its group.
Works with both versions of control groups, and needs root.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.helpers.machines import Refused

ROOT = Path("/sys/fs/cgroup")
QUOTA = 1000  # microseconds
PROCESSES = "cgroup.procs"
ENDING = 20.0  # seconds in which the processes of a group end
_made = itertools.count()


@dataclass(frozen=True)
class Quota:
    """A group, whose part of a core is the `slower`-th. `home` is the group of the process that
    made it."""

    folder: Path
    home: Path
    slower: int

    @property
    def before(self) -> tuple[str, ...]:
        """The words in front of a command that runs in the group."""
        return ("sh", "-c", f'echo $$ > {self.folder / PROCESSES} && exec "$@"', "sh")

    def pids(self) -> set[int]:
        """The processes in the group."""
        return {int(pid) for pid in (self.folder / PROCESSES).read_text().split()}

    def periods(self) -> tuple[int, int]:
        """The periods in which the group had work, and those in which it used up its quota."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        counts = dict(line.split() for line in lines)
        return int(counts["nr_periods"]), int(counts["nr_throttled"])

    @contextmanager
    def slowed(self) -> Iterator[None]:
        """Limit the group to its part of a core, and lift the limit at the end."""
        self.limit(QUOTA)
        try:
            yield
        finally:
            self.limit(None)

    def limit(self, quota: int | None) -> None:
        """Set the microseconds of each period; None: no limit."""
        period = QUOTA * self.slower
        if self.folder.parent.name == "cpu":
            (self.folder / "cpu.cfs_period_us").write_text(str(period))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota or -1))
        else:
            (self.folder / "cpu.max").write_text(f"{quota or 'max'} {period}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Move this process, with its threads, into the group, and back at the end."""
        (self.folder / PROCESSES).write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.home / PROCESSES).write_text(str(os.getpid()))


@contextmanager
def quotas(
    count: int, slower: int, root: Path = ROOT, own: Path = Path("/proc/self/cgroup")
) -> Iterator[list[Quota]]:
    """Make `count` groups, each with a core's `slower`-th part while it is `slowed`. `root`: the
    mounted control groups; `own`: the list of this process's groups. Raises Refused with the reason
    if they cannot be made or limited."""
    made: list[Quota] = []
    try:
        try:
            for _ in range(count):
                made.append(_quota(slower, root, own))
                with made[-1].slowed():
                    pass  # a limit that is not allowed is found here
        except OSError as error:
            raise Refused(f"no quota of a processor: {error}") from None
        yield made
    finally:
        for quota in made:
            _remove(quota)


def _quota(slower: int, root: Path, own: Path) -> Quota:
    """A new group with the cpu controller."""
    name = f"convoy-{os.getpid()}-{next(_made)}"
    groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    homes = {controller: path for _, names, path in groups for controller in names.split(",")}
    first = root / "cpu"
    if (first / PROCESSES).exists() and "cpu" in homes:
        top, home = first, homes["cpu"]
    elif (root / "cgroup.controllers").exists() and "" in homes:
        top, home = root, homes[""]
        enabled = root / "cgroup.subtree_control"
        if "cpu" not in enabled.read_text().split():
            enabled.write_text("+cpu")
    else:
        raise Refused(f"no quota of a processor: {root} has no control groups with 'cpu'")
    folder = top / name
    folder.mkdir()
    return Quota(folder, top / home.strip("/"), slower)


def _remove(quota: Quota) -> None:
    """Remove a group as soon as its processes have ended. Prints a group that has to stay."""
    deadline = time.monotonic() + ENDING
    while True:
        try:
            quota.folder.rmdir()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                print(f"{quota.folder} cannot be removed: {error.strerror}; remove it with rmdir")
                return
        time.sleep(0.05)

"""The memory of this machine, or of the control group that holds this process, and whether the
kernel has killed a process for memory.

Linux only. On other systems, and where the files are hidden, the values are not known. Both
versions of control groups are read. Of nested groups the smallest limit counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 for no limit


class MachineMemory:
    """Amounts of memory in bytes. `root` is the folder that contains /proc and /sys."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._groups = list(self._holding())
        self._kills = self._killed()

    def __repr__(self) -> str:
        return f"<memory: {self.total} bytes, {self.available} available>"

    @property
    def total(self) -> int | None:
        """The memory that this process can use at most; None if it is not known."""
        limits = [limit for group in self._groups if (limit := self._limit(group)) is not None]
        installed = self._info("MemTotal")
        return min([*limits, *([] if installed is None else [installed])], default=None)

    @property
    def available(self) -> int | None:
        """The memory that is available now without swapping; None if it is not known."""
        free = [room for group in self._groups if (room := self._room(group)) is not None]
        unused = self._info("MemAvailable")
        return min([*free, *([] if unused is None else [unused])], default=None)

    def killed(self) -> bool | None:
        """Whether the kernel has killed a process for memory since this object was made. The count
        is for this process's control group, or for the whole machine if groups do not report it.
        None if it is not known."""
        now = self._killed()
        return None if now is None or self._kills is None else now > self._kills

    def _holding(self) -> Iterator[Path]:
        """Yield the folders of the control groups that hold this process, innermost first."""
        mounts = self._root / "sys/fs/cgroup"
        for line in _text(self._root / "proc/self/cgroup").splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if controllers and "memory" not in controllers.split(","):
                continue
            top = mounts / "memory" if controllers else mounts
            inner = top / path.strip("/")
            # in a container the path may be the host's path: the container's group is then mounted
            # at the top
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))

    def _limit(self, group: Path) -> int | None:
        found = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        return found if found and found < UNLIMITED else None

    def _room(self, group: Path) -> int | None:
        """Return the group's limit less its usage. Cached pages of files do not count as used,
        since the kernel can take them back."""
        limit = self._limit(group)
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
        if limit is None or used is None:
            return None
        pages = _table(group / "memory.stat")
        cached = pages.get("inactive_file", 0) + pages.get("active_file", 0)
        return max(0, limit - max(0, used - cached))

    def _killed(self) -> int | None:
        for group in self._groups:
            for name in ("memory.events", "memory.oom_control"):
                found = _table(group / name).get("oom_kill")
                if found is not None:
                    return found
        return _table(self._root / "proc/vmstat").get("oom_kill")

    def _info(self, key: str) -> int | None:
        for line in _text(self._root / "proc/meminfo").splitlines():
            name, _, rest = line.partition(":")
            if name == key and rest.split()[:1] and rest.split()[0].isdecimal():
                return int(rest.split()[0]) * 1024
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Return the number in the file, or None for "max" or a missing file."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _table(path: Path) -> dict[str, int]:
    """Return the file's lines of a name and a number as a dict."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}

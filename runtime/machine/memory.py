"""The memory of this machine, or of the control group that holds this process; and whether the
kernel killed for it.

Linux only; elsewhere, and where files are hidden, nothing is known. Control groups of both
versions: of several that hold one another the tightest counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 for no limit


class MachineMemory:
    """Bytes. `root`: where /proc and /sys are."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._groups = list(self._holding())
        self._kills = self._killed()

    def __repr__(self) -> str:
        return f"<memory: {self.total} bytes, {self.available} available>"

    @property
    def total(self) -> int | None:
        """What there is; None if that is not known."""
        limits = [limit for group in self._groups if (limit := self._limit(group)) is not None]
        installed = self._info("MemTotal")
        return min([*limits, *([] if installed is None else [installed])], default=None)

    @property
    def available(self) -> int | None:
        """What can be had now without swapping; None if that is not known."""
        free = [room for group in self._groups if (room := self._room(group)) is not None]
        unused = self._info("MemAvailable")
        return min([*free, *([] if unused is None else [unused])], default=None)

    def killed(self) -> bool | None:
        """Has the kernel killed a process for memory since this object was made, in this process's
        control group, or on this machine where groups do not tell? None if that is not known."""
        now = self._killed()
        return None if now is None or self._kills is None else now > self._kills

    def _holding(self) -> Iterator[Path]:
        """The folders of the control groups that hold this process, innermost first."""
        mounts = self._root / "sys/fs/cgroup"
        for line in _text(self._root / "proc/self/cgroup").splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if controllers and "memory" not in controllers.split(","):
                continue
            top = mounts / "memory" if controllers else mounts
            inner = top / path.strip("/")
            # in a container the path may be that of the host: its own group is then mounted at the
            # top
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))

    def _limit(self, group: Path) -> int | None:
        found = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        return found if found and found < UNLIMITED else None

    def _room(self, group: Path) -> int | None:
        """Its limit less what it uses; pages of files can be given back."""
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
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """What the file holds; None for "max" and where there is none."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _table(path: Path) -> dict[str, int]:
    """A file of lines of a name and a number."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}

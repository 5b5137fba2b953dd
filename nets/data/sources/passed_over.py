"""The files and folders that a search passes over, counted by the reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SHOWN = 3  # names of each reason


class PassedOver:
    """The files and folders below `root` that were passed over. `told` is one line for the user."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"<passed over below {self._root}: {sum(map(len, self._names.values()))}>"

    def note(self, path: Path, why: str) -> None:
        """Count a file or folder among the things called `why`, such as "hidden files"."""
        self._names.setdefault(why, []).append(str(path.relative_to(self._root)))

    @property
    def told(self) -> tuple[str, ...]:
        """One line with the number and the first names for each reason; none if all was taken."""
        if not self._names:
            return ()
        each = (f"{why}: {len(names)} ({first(names)})" for why, names in self._names.items())
        return (f"{shown(self._root)}: passed over: {'; '.join(each)}",)


def first(names: Sequence[str]) -> str:
    """Return the first names of a list, and the number of the others."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(map(shown, names[:SHOWN]))}{more}"


def shown(name: str | Path) -> str:
    """Return a name for a line of text: line breaks and other signs that are not printable are
    escaped, since a file may be called anything."""
    text = str(name)
    return text if text.isprintable() else repr(text)[1:-1]

"""The confusion matrices of a run's last tests: how often each class was found for each label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.page.run_history import RunHistory
from runtime.records.journal_reading import is_number

MOST_CLASSES = 200  # a larger matrix is damage
MOST_NUMBERED = 20  # classes of a matrix whose cells show their counts
WORST = 10  # pairs of classes
NAME = 24  # characters of a name next to the matrix


@dataclass(frozen=True)
class Matrix:
    """The matrix of one test net. `counts` has a row for each label and a column for each found
    class. `net` is "" if the run has one test net."""

    net: str
    iteration: int
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def recall(self) -> list[float | None]:
        """The share of each label's images whose class was found; None for a label without
        images."""
        return [row[at] / total if (total := sum(row)) else None for at, row in enumerate(self)]

    @property
    def cells(self) -> list[tuple[int, int, int, float]]:
        """(row, column, count, share of the row) of each cell that is not 0."""
        return [
            (at, column, count, count / sum(row))
            for at, row in enumerate(self)
            for column, count in enumerate(row)
            if count
        ]

    @property
    def worst(self) -> list[tuple[str, str, int, float]]:
        """(label, class that was found, count, share of the label's images) of the pairs that are
        confused most often."""
        wrong = [cell for cell in self.cells if cell[0] != cell[1]]
        most = sorted(wrong, key=lambda cell: (-cell[2], cell))[:WORST]
        return [(self.names[a], self.names[b], count, share) for a, b, count, share in most]

    @property
    def is_numbered(self) -> bool:
        """Whether the cells have room for their counts."""
        return len(self.names) <= MOST_NUMBERED

    @property
    def shown_names(self) -> list[str]:
        """The names, cut to the room next to the matrix."""
        return [name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in self.names]

    def plain(self) -> dict[str, Any]:
        """The matrix as data for scripts."""
        return {
            "net": self.net,
            "iteration": self.iteration,
            "classes": list(self.names),
            "counts": [list(row) for row in self.counts],
        }

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.counts)


def matrices(story: RunHistory) -> list[Matrix]:
    """The matrices of the last test of each test net. An event without a matrix in it is left
    out."""
    return [found for event in story.confusions.values() if (found := _matrix(event)) is not None]


def _matrix(event: Mapping[str, Any]) -> Matrix | None:
    rows = event.get("counts")
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_CLASSES:
        return None
    if not all(isinstance(row, list) and len(row) == len(rows) for row in rows):
        return None
    if not all(is_number(count) and count >= 0 for row in rows for count in row):
        return None
    said = event.get("classes")
    named = isinstance(said, list) and len(said) == len(rows)
    names = tuple(map(str, said if named and said else range(len(rows))))
    counts = tuple(tuple(map(int, row)) for row in rows)
    iteration = event.get("iteration")
    return Matrix(
        str(event.get("net", "")), int(iteration) if is_number(iteration) else 0, names, counts
    )

"""The rows of a batch that each member of a group computes: equal shares, or shares by measured
throughput."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roles.learning.tree import split

# the weight of the old rate when a new one is measured: one slow pass moves a share by a fifth of
# the difference
KEPT = 0.8
# the least part of a batch's time that other rows must save; a GPU records its step anew for them
GAIN = 0.05
MOST_TOLD = 8  # workers whose rows are told one by one


@dataclass(frozen=True)
class Cutting:
    """The way to cut batches.

    `in_proportion`: in proportion to the measured rows per second of the workers (Omnivore, section
    5.1: a device is a black box of known throughput). Rows change only if that saves GAIN of a
    batch's time. With `micro_batches`, cuts are only between
    two of these. `expected`: (worker, speed) as the kinds of their machines have it, in any unit.
    These speeds count until all members of a group have been measured.
    """

    in_proportion: bool = False
    micro_batches: int = 0
    expected: tuple[tuple[str, float], ...] = ()


EQUAL = Cutting()


class Shares:
    """Divides the rows of a batch among the members of a group: equally, or in proportion to the
    rows that each worker computes in a second."""

    def __init__(self, cutting: Cutting = EQUAL) -> None:
        self._in_proportion = cutting.in_proportion
        self._micro_batches = cutting.micro_batches
        self._rates: dict[str, float] = {}  # worker -> rows per second
        self._expected = dict(cutting.expected)
        # the rows that members got last, by members and rows
        self._last: dict[tuple[tuple[str, ...], int], list[int]] = {}

    def __repr__(self) -> str:
        return (
            "<shares "
            f"{'in proportion to ' + repr(self._rates) if self._in_proportion else 'equal'}>"
        )

    def seen(self, worker: str, rows: int, seconds: float) -> None:
        """Note that a worker computed `rows` rows in `seconds`."""
        if 0 < seconds < math.inf:
            rate = rows / seconds
            self._rates[worker] = KEPT * self._rates.get(worker, rate) + (1 - KEPT) * rate

    def told(self, groups: Iterable[Sequence[str]], rows: int) -> str:
        """The rows of each worker of these groups, of batches of `rows` rows: "a 43, b 21". "" if
        shares are equal, or are not measured yet."""
        every = list(groups)
        names = [name for members in every for name in members]
        if not self._in_proportion or self._micro_batches or max(map(len, every), default=0) < 2:
            return ""
        if not all(name in self._rates for name in names):
            return ""
        sizes = [
            high - low
            for members in every
            for low, high in itertools.pairwise(self.cuts(members, rows))
        ]
        if len(names) > MOST_TOLD:
            return f"{min(sizes)} to {max(sizes)} a worker"
        return ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))

    def problem(self, members: int, rows: int) -> str:
        """The reason why this number of members cannot share a batch of `rows` rows; "" if they
        can."""
        if members > rows:
            return f"a group of {members} workers cannot share a batch of {rows} images"
        if too_few := self.too_few(rows):
            return too_few
        if self._micro_batches and (members > self._micro_batches or self._micro_batches % members):
            powers = [str(2**n) for n in range(self._micro_batches.bit_length())]
            return (
                f"a reproducible run's groups have {', '.join(powers[:-1])} or "
                f"{powers[-1]} workers, not {members}"
            )
        return ""

    def too_few(self, rows: int) -> str:
        """The reason why a batch of `rows` rows has fewer rows than micro-batches; "" if it has
        enough."""
        if self._micro_batches <= rows:
            return ""
        return (
            f"a reproducible run needs batches of {self._micro_batches} rows or more, not {rows}: "
            "images, or streams of a recurrent net"
        )

    def cuts(self, members: Sequence[str], rows: int) -> tuple[int, ...]:
        """The places where the batch is cut: len(members) + 1 numbers from 0 to `rows`. Every
        member has at least one row."""
        if self._micro_batches and rows >= self._micro_batches:
            return micro_cuts(rows, self._micro_batches)[:: self._micro_batches // len(members)]
        measured = all(worker in self._rates for worker in members)
        rates = self._rates if measured else self._expected
        if not self._in_proportion or not all(worker in rates for worker in members):
            sizes = split(rows, len(members))
        else:
            sizes = self._settled(members, [rates[worker] for worker in members], rows)
        return (0, *itertools.accumulate(sizes))

    def _settled(self, members: Sequence[str], rates: list[float], rows: int) -> list[int]:
        """Rows in proportion to these rates, or the last ones if the change would save less than
        GAIN. The first ones are equal."""
        key = tuple(members), rows
        last = self._last.get(key, split(rows, len(members)))
        sizes = _in_proportion(rates, rows)
        if _time(sizes, rates) < (1 - GAIN) * _time(last, rates):
            self._last[key] = sizes
            return sizes
        return last


def micro_cuts(rows: int, micro_batches: int) -> tuple[int, ...]:
    """The places where a batch is cut into micro-batches. Some micro-batches may be empty."""
    return (0, *itertools.accumulate(split(rows, micro_batches)))


def _time(sizes: Sequence[int], rates: list[float]) -> float:
    """The time of the member that takes the longest for its rows."""
    return max(size / rate for size, rate in zip(sizes, rates, strict=True))


def _in_proportion(rates: list[float], rows: int) -> list[int]:
    """Whole numbers of rows, at least one each, by largest remainders."""
    left = rows - len(rates)
    exact = [left * rate / sum(rates) for rate in rates]
    sizes = [1 + int(share) for share in exact]
    order = sorted(
        range(len(rates)), key=lambda member: (int(exact[member]) - exact[member], member)
    )
    for member in order[: rows - sum(sizes)]:
        sizes[member] += 1
    return sizes

"""A headline of a paper, and the place of this project's figure: a part of a benchmark's result and
the function that reads the figure in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.helpers.report import Record, Table
from benchmarks.papers.planned import Case

Read = Callable[[Record], str]
WHOLE = ("lowering", "training-fast")  # results of commands without --parts
# parts of this benchmark
PLAN, VOLUMES, GPU_MEMORY, END_TO_END = "plan", "volumes", "gpu-memory", "end-to-end"


@dataclass(frozen=True)
class Source:
    """The part of a benchmark that has the figure. `read` takes the figure from the part's record.
    `cases` are the plans that the figure needs, if the part is this benchmark's `plan`."""

    benchmark: str
    part: str
    read: Read
    cases: tuple[Case, ...] = ()

    @property
    def command(self) -> str:
        """The command that measures the part."""
        command = f"python -m benchmarks.{self.benchmark.partition('-')[0]}"
        return command if self.benchmark in WHOLE else f"{command} --parts {self.part}"


@dataclass(frozen=True)
class Headline:
    """A result that a reader of the paper would remember.

    `where`: the section, figure or table. `claim`: the result in words. `theirs`: the paper's
    figure. `how`: the sort of measurement behind our figure. `ours`: the place of our figure; None
    if there is none, and `differs` then gives the reason. `differs`: the differences between both
    figures and their causes.
    """

    where: str
    claim: str
    theirs: str
    how: str
    ours: Source | None
    differs: str


@dataclass(frozen=True)
class Paper:
    """A paper and its headlines. `key`: the name of its table on the page."""

    key: str
    headlines: tuple[Headline, ...]


def shown(number: float) -> str:
    """A figure with three digits."""
    if math.isinf(number):
        return "not reached"
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def cell(table: Table, row: Mapping[str, Any], column: str) -> Any:
    """The cell of the first row whose cells under these headers have these values. Raises
    LookupError if there is no such row."""
    for cells in table.rows:
        named = dict(zip(table.headers, cells, strict=True))
        if all(named[header] == value for header, value in row.items()):
            return named[column]
    raise LookupError(f"the table '{table.title}' has no row with {dict(row)}")


def table_of(record: Record, title: str) -> Table:
    """The first table whose title begins with these words. Raises LookupError if there is none."""
    for table in record.tables:
        if table.title.startswith(title):
            return table
    raise LookupError(f"'{record.title}' has no table '{title}...'")


def speed_up(many: Case, one: Case, text: str = "{}") -> Source:
    """The images a second of one plan, divided by those of another."""

    def read(record: Record) -> str:
        return text.format(shown(_rate(record, many) / _rate(record, one)))

    return Source("papers", PLAN, read, (many, one))


def efficiency(many: Case, one: Case) -> Source:
    """The share of the images a second of `one` that each worker of `many` keeps (weak scaling). `one`
    has one worker."""

    def read(record: Record) -> str:
        share = _rate(record, many) / _rate(record, one) / many.workers
        return f"{100 * share:.1f} %"

    return Source("papers", PLAN, read, (many, one))


def _rate(record: Record, case: Case) -> float:
    table = table_of(record, "Predicted iterations")
    return float(cell(table, {"plan": case.name}, "images/s"))

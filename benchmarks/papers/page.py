"""The tables of docs/papers.md, from the headlines and the kept results of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.papers.headline import Headline, Paper, Source
from benchmarks.papers.results import RESULTS, Kept, measured

HEADERS = ("where", "the paper", "its figure", "ours", "how, and when", "differences and causes")
UNMEASURED = "not measured yet"


def markdown(paper: Paper, folder: Path = RESULTS) -> str:
    """The table of one paper."""
    lines = [HEADERS, ("---",) * len(HEADERS), *(row(each, folder) for each in paper.headlines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(headline: Headline, folder: Path = RESULTS) -> tuple[str, ...]:
    """The cells of a headline. A part without a result shows the command that measures it."""
    figure, how = "none", headline.how
    if (source := headline.ours) is not None:
        records = measured(source.benchmark, source.part, folder)
        if not records:
            figure, how = UNMEASURED, f"{how}: `{source.command}`"
        else:
            figure, kept = _read(source, records)
            link = f"[{kept.file}](../benchmarks/results/{kept.file}.md)"
            machine = kept.record.machine
            how = f"{how} ({link}, `{source.part}`, {machine['date']}, `{machine['commit']}`)"
    cells = (headline.where, headline.claim, headline.theirs, figure, how, headline.differs)
    return tuple(cell.replace("|", r"\|") for cell in cells)


def _read(source: Source, records: Sequence[Kept]) -> tuple[str, Kept]:
    """The figure from the newest record that has it, and that record: a run without an optional
    package leaves out a table. Raises LookupError if no record has the figure."""
    for kept in records[:-1]:
        with suppress(LookupError):
            return source.read(kept.record), kept
    return source.read(records[-1].record), records[-1]

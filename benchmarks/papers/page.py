"""The tables of docs/papers.md, from the headlines and the kept results of benchmarks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.headline import Headline, Paper
from benchmarks.papers.results import RESULTS, newest

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
        kept = newest(source.benchmark, source.part, folder)
        if kept is None:
            figure, how = UNMEASURED, f"{how}: `{source.command}`"
        else:
            link = f"[{kept.file}](../benchmarks/results/{kept.file}.md)"
            machine = kept.record.machine
            figure = source.read(kept.record)
            how = f"{how} ({link}, `{source.part}`, {machine['date']}, `{machine['commit']}`)"
    cells = (headline.where, headline.claim, headline.theirs, figure, how, headline.differs)
    return tuple(cell.replace("|", r"\|") for cell in cells)

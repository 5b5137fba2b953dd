"""`compare`: show how runs differ in their keys and in their scores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from runtime.cli.arguments import runs_here
from runtime.cli.runs import WIDE

if TYPE_CHECKING:
    from runtime.attached.run_listing import ListedRun
    from runtime.report.score_curves import ScoreCurves

MOST_ROWS = 20  # of the table of scores
CURVE = 30  # characters of a curve


def compare(
    first: Path,
    second: Path,
    *others: Path,
    score: str = "",
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Compare runs: how each ended, the keys of cluster.toml that differ, and a score over the
    iterations. `report A B` draws their curves on one page.

    Parameters
    ----------
    first
        A run directory or its name.
    second
        Another one.
    others
        Further ones.
    score
        The score of the tests, or a number of the progress reports, such as loss; by default the
        score that counts in the first run, or its training loss.
    as_json
        Write an object with all values, for scripts.
    """
    from runtime.attached.finding import meant
    from runtime.attached.run_listing import listed_run
    from runtime.errors import ConfigError
    from runtime.report.console import Teller
    from runtime.report.run_keys import differing
    from runtime.report.score_curves import curves_of
    from runtime.suggest import hint

    notes: list[str] = []
    below = runs_here()
    found = [listed_run(asyncio.run(meant(run, below)), notes) for run in (first, second, *others)]
    curves = [curves_of(run.directory, notes) for run in found]
    wanted = score or found[0].summary.score or "loss"
    known = {name for each in curves for name in (*each.tests, *each.training)}
    if score and score not in known:
        raise ConfigError(
            [f"--score {score}: none of these runs reports this score{hint(score, known)}"]
        )
    keys = differing([run.keys for run in found])
    console = Teller()
    for note in dict.fromkeys(notes):
        console.warn(note)
    if as_json:
        console.say(json.dumps(values(found, curves, keys, wanted), indent=1))
        return 0
    width = console.console.width if console.console.is_terminal else WIDE
    for line in lines(found, curves, keys, wanted, width):
        console.say(line)
    return 0


def values(
    found: Sequence[ListedRun], curves: Sequence[ScoreCurves], keys: Sequence[str], score: str
) -> dict[str, Any]:
    """Return the object that `--json` writes."""
    return {
        "score": score,
        "keys": {key: [run.keys.get(key) for run in found] for key in keys},
        "runs": [
            {**run.plain(), "curve": sorted(each.of(score).items())}
            for run, each in zip(found, curves, strict=True)
        ],
    }


def lines(
    found: Sequence[ListedRun],
    curves: Sequence[ScoreCurves],
    keys: Sequence[str],
    score: str,
    width: int,
) -> Iterator[str]:
    """Three tables: the ends of the runs, the keys that differ, and the score over the
    iterations."""
    from runtime.report.columns import Column, brief, table
    from runtime.report.run_keys import short_names, shown

    marks = [chr(ord("A") + at) if at < 26 else f"run {at + 1}" for at in range(len(found))]
    ends = (
        Column("", least=1),
        Column("run", least=22, name=True),
        Column("state", least=7),
        Column("iteration", right=True),
        Column("best", least=18),
        Column("last", right=True, rank=2),
        Column("seconds", right=True, rank=4),
        Column("images/s", right=True, rank=3),
        Column(score, least=8, rank=1),
    )
    rows = [
        (mark, *_end(run), _curve(each.of(score)))
        for mark, run, each in zip(marks, found, curves, strict=True)
    ]
    yield from table(ends, rows, width)
    yield ""
    if keys:
        names = short_names(name for run in found for name in run.keys)
        values = [(names[key], *(shown(run.keys.get(key)) for run in found)) for key in keys]
        columns = (Column("key", name=True), *(Column(mark, least=3, name=True) for mark in marks))
        yield from table(columns, values, width)
    else:
        yield "no key of cluster.toml differs"
    yield ""
    heights = [each.of(score) for each in curves]
    steps = _thinned(sorted({at for height in heights for at in height}))
    epochs: dict[int, float] = {}
    for each in reversed(curves):
        epochs |= each.epochs
    columns = (
        Column("iteration", right=True),
        *([Column("epoch", right=True, rank=1)] if epochs else ()),
        *(Column(f"{score} {mark}", right=True) for mark in marks),
    )
    cells = [
        (
            str(at),
            *([brief(epochs[at]) if at in epochs else ""] if epochs else ()),
            *(brief(height[at]) if at in height else "" for height in heights),
        )
        for at in steps
    ]
    yield from table(columns, cells, width) if cells else [f"no run reports {score}"]


def _end(run: ListedRun) -> tuple[str, ...]:
    from runtime.report.columns import brief

    summary = run.summary
    best = summary.best_score
    last = summary.loss if summary.last_score is None else summary.last_score
    rate = summary.images_per_second
    return (
        run.directory.name,
        summary.state,
        "" if summary.iteration is None else str(summary.iteration),
        "" if best is None else f"{summary.score} {brief(best[0])} at {best[1]}",
        "" if last is None else brief(last),
        f"{summary.seconds:.1f}",
        "" if rate is None else f"{rate:.0f}",
    )


def _curve(height: Mapping[int, float]) -> str:
    from runtime.report.columns import sparkline

    return sparkline([height[at] for at in sorted(height)], CURVE)


def _thinned(steps: Sequence[int]) -> list[int]:
    """At most MOST_ROWS of the iterations, evenly chosen, with the first and the last."""
    if len(steps) <= MOST_ROWS:
        return list(steps)
    last = len(steps) - 1
    return [steps[round(at * last / (MOST_ROWS - 1))] for at in range(MOST_ROWS)]

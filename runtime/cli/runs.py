"""`runs`: list the runs of a folder, live and over, with their scores and the keys that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Switch, runs_here
from runtime.regular import is_folder

if TYPE_CHECKING:
    from runtime.attached.run_listing import ListedRun

OWN = ("net", "preset")  # keys that need no place among the keys that differ
WIDE = 1000  # cells; a file or pipe gets whole lines
MOST_NOTES = 20  # about damaged files that are printed


def runs(
    folder: Path | None = None,
    *,
    filters: Annotated[
        tuple[str, ...], Parameter(name="--filter", negative=(), consume_multiple=False)
    ] = (),
    sort: str | None = None,
    reverse: Switch = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """List the runs, the newest last: begin, state, net, preset, iteration, the best and the last
    score of the tests, and the keys of cluster.toml that differ between the listed runs.

    States: running, ended, interrupted, continued (by another run), failed.

    Parameters
    ----------
    folder
        The folder of run directories; by default `run.directory` of the cluster.toml here.
    filters
        List only runs that fit: --filter net=lenet, --filter state=failed, --filter "accuracy>0.9".
        A name is a fact of the run, a score (its best value counts), or a key of cluster.toml or
        its end. May be given several times.
    sort
        Order by such a name; the largest comes last.
    reverse
        The largest, or the newest, comes first.
    as_json
        Write an array of objects with all keys, for scripts.
    """
    from runtime.attached.run_listing import listed
    from runtime.cli.run_filters import filtered, in_order
    from runtime.errors import ConfigError
    from runtime.report.console import Teller

    below = folder or runs_here()
    if folder is not None and not is_folder(folder):
        raise ConfigError(
            [f"runs {folder}: found no folder of that name, expected the folder of run directories"]
        )
    notes: list[str] = []
    everything = listed(below, notes)
    found = filtered(everything, filters)
    if sort is not None:
        found = in_order(found, sort, reverse=reverse)
    elif reverse:
        found.reverse()
    console = Teller()
    for note in notes[:MOST_NOTES]:
        console.warn(note)
    if len(notes) > MOST_NOTES:
        console.warn(f"{len(notes) - MOST_NOTES} more files are damaged")
    if as_json:
        console.say(json.dumps([run.plain() for run in found], indent=1))
        return 0
    width = console.console.width if console.console.is_terminal else WIDE
    fit = f" that fits, among {len(everything)}" if everything else ""
    console.say("\n".join(lines(found, width)) or f"no run in {below}{fit}")
    return 0


def lines(found: Sequence[ListedRun], width: int) -> list[str]:
    """The table of these runs, each line at most `width` cells. Empty without runs."""
    from runtime.report.columns import Column, table
    from runtime.report.run_keys import differing, meant, short_names

    if not found:
        return []
    names = {name for run in found for name in run.keys}
    short = short_names(names)
    own = [key for title in OWN for key in meant(title, names)]
    other = [key for key in differing([run.keys for run in found]) if key not in own]
    columns = (
        Column("run", least=22, name=True),
        Column("began", least=19, rank=6),
        Column("state", least=7),
        Column("net", rank=4, name=True),
        Column("preset", rank=5, name=True),
        Column("iteration", right=True, rank=1),
        Column("best", least=18),
        Column("last", rank=3),
        Column("keys that differ", rank=2),
    )
    return table(columns, [_cells(run, other, short) for run in found], width)


def _cells(run: ListedRun, other: Sequence[str], short: dict[str, str]) -> tuple[str, ...]:
    from runtime.report.columns import brief, moment
    from runtime.report.run_keys import meant, shown

    summary = run.summary
    done = "" if summary.iteration is None else str(summary.iteration)
    whole = "" if summary.max_iter is None else f"/{summary.max_iter}"
    best = summary.best_score
    if summary.last_score is not None:
        last = brief(summary.last_score)
    else:
        last = "" if summary.loss is None else f"loss {brief(summary.loss)}"
    presets = meant("preset", run.keys)
    return (
        run.directory.name,
        moment(run.identity.began),
        summary.state,
        run.net,
        shown(run.keys[presets[0]]) if len(presets) == 1 else "",
        f"{done}{whole}",
        "" if best is None else f"{summary.score} {brief(best[0])} at {best[1]}",
        last,
        "  ".join(f"{short[key]}={shown(run.keys.get(key))}" for key in other) if run.keys else "",
    )

"""`report`: what is known of runs as one HTML page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.errors import ConfigError, ConvoyError
from runtime.reasons import reason

REPORT = "report.html"


def report(
    *runs: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    refresh: Annotated[int, Parameter(show=False)] = 0,
) -> int:
    """Write one HTML page with everything that is known of a run, or of several beside each other: loss and accuracy,
    where the time goes, traffic, decisions, warnings. The page needs no network.

    Parameters
    ----------
    runs
        Run directories or their names; without any the only live run, else the newest.
    output
        The file; by default report.html in the directory of the first run.
    """
    from runtime.attached.finding import listens, meant
    from runtime.cli.arguments import runs_here
    from runtime.page.lineage import whole
    from runtime.page.page import page
    from runtime.report.console import Teller

    found = [*map(_located, runs)] if runs else [asyncio.run(meant(None, runs_here()))]
    text = page([whole(directory, lives=listens(directory)) for directory in found], refresh=refresh)
    file = output or found[0] / REPORT
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError([f"--output {file}: cannot be written: {reason(error)}"]) from None
    Teller().say(f"report     {file}")
    return 0


def _located(run: Path) -> Path:
    """A run directory by its path, or by its name in the folder of runs. ConfigError if it is none."""
    from runtime.cli.arguments import runs_here
    from runtime.report.reading import FILE

    places = (run, run if run.is_absolute() else runs_here() / run)
    for path in places:
        try:
            if (path / FILE).is_file():
                return path
        except PermissionError:
            raise ConvoyError(f"the run in {path} is another user's") from None
    where = (
        "expected a run directory"
        if places[0] == places[1]
        else f"expected a run directory, or the name of one in {runs_here()}"
    )
    raise ConfigError([f"{run}: found no {FILE} there, {where}"])

"""`report`: what is known of runs as one HTML page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.errors import ConfigError
from runtime.reasons import reason

REPORT = "report.html"


def report(
    *runs: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    program: str = "",
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
    program
        A program of yours that is imported and asked what its runs were planned to send. No other but the built-in one
        is imported, whatever a run directory names.
    """
    from runtime.attached.finding import lives, meant
    from runtime.cli.arguments import runs_here
    from runtime.config.source import BUILT_IN
    from runtime.machine.files import replace
    from runtime.page.lineage import whole
    from runtime.page.page import page
    from runtime.report.console import Teller

    found = [asyncio.run(meant(run, runs_here())) for run in runs or (None,)]
    histories = [whole(directory, lives=lives(directory)) for directory in found]
    text = page(histories, refresh=refresh, trusted=(BUILT_IN, program))
    file = output or found[0] / REPORT
    try:
        if output is None:
            replace(file, text.encode())  # in the run directory
        else:
            file.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError([f"--output {file}: cannot be written: {reason(error)}"]) from None
    Teller().say(f"report     {file}")
    return 0

"""`report`: write everything that is known of runs as one HTML page."""

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
    static: Annotated[bool, Parameter(negative="")] = False,
    refresh: Annotated[int, Parameter(show=False)] = 0,
) -> int:
    """Write one HTML page with everything that is known of a run, or of several runs in comparison:
    loss and accuracy, where the time goes, traffic, decisions, warnings. The page needs no network.

    Parameters
    ----------
    runs
        Run directories or their names; by default the only live run, else the newest.
    output
        The file; by default report.html in the directory of the first run.
    program
        Your own program. It is imported and asked for the planned traffic of its runs. Apart from
        it only the built-in program is imported, whatever a run directory names.
    static
        Write a page without a script: its curves are drawings.
    """
    from runtime.attached.finding import lives, meant
    from runtime.cli.arguments import runs_here
    from runtime.config.toml_source import BUILT_IN
    from runtime.page.lineage import whole
    from runtime.page.page import page
    from runtime.records.run_files import Damaged
    from runtime.report.console import Teller

    found = [asyncio.run(meant(run, runs_here())) for run in runs or (None,)]
    console = Teller()

    def is_live(directory: Path) -> bool:
        try:
            return lives(directory)
        except Damaged as error:
            console.warn(str(error))
            return False

    stories = [whole(directory, lives=is_live(directory)) for directory in found]
    text = page(stories, refresh=refresh, trusted=(BUILT_IN, program), static=static)
    for note in dict.fromkeys(note for story in stories for note in story.damaged):
        console.warn(note)
    file = output or found[0] / REPORT
    _write(file, text, in_run=output is None)
    console.say(f"report     {file}")
    return 0


def _write(file: Path, text: str, *, in_run: bool) -> None:
    """Write the page. A page in the run directory replaces any file of its name. Raises ConfigError
    if it cannot be written."""
    from runtime.machine.private_files import replace

    data = text.encode("utf-8", "replace")  # a journal may hold half a character
    try:
        if in_run:
            replace(file, data)
        else:
            file.write_bytes(data)
    except OSError as error:
        raise ConfigError([f"--output {file}: cannot be written: {reason(error)}"]) from None

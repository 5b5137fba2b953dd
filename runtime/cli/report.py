"""`report`: write everything that is known of runs as one HTML page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.errors import ConfigError
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.report.console import Teller

REPORT = "report.html"
MOST_RUNS = 50  # of a folder


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
        Run directories or their names, or a folder of run directories for all of its runs; by
        default the only live run, else the newest.
    output
        The file; by default report.html in the directory of the first run, or in the folder.
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

    console = Teller()
    found = list[Path]()
    for run in runs or (None,):
        several = [] if run is None else _runs_of(run, console)
        found += several or [asyncio.run(meant(run, runs_here()))]

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
    first = runs[0] if runs and found[0].parent == runs[0] else found[0]
    file = output or first / REPORT
    _write(file, text, in_run=output is None)
    console.say(f"report     {file}")
    return 0


def _runs_of(folder: Path, console: Teller) -> list[Path]:
    """The newest runs of a folder of run directories, the oldest first. Empty if `folder` is itself
    a run directory, the name of a run, or has no runs. Raises ConfigError if it cannot be read."""
    from runtime.records.run_identity import identity_of
    from runtime.records.runs import runs_in

    try:
        if identity_of(folder) is not None:
            return []
        known = [run.directory for run in runs_in(folder)]
    except OSError as error:
        raise ConfigError([f"{folder}: its runs cannot be read: {reason(error)}"]) from None
    if len(known) > MOST_RUNS:
        console.warn(f"{folder}: found {len(known)} runs; the newest {MOST_RUNS} are shown")
    return known[-MOST_RUNS:]


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

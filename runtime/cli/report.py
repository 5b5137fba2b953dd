"""`report`: what is known of runs as one HTML page."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.errors import ConfigError
from runtime.machine import owned

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
    from runtime.attached.finding import lives, meant
    from runtime.cli.arguments import runs_here
    from runtime.page.lineage import whole
    from runtime.page.page import page
    from runtime.records.files import Damaged
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
    text = page(stories, refresh=refresh)
    for note in dict.fromkeys(note for story in stories for note in story.damaged):
        console.warn(note)
    file = output or found[0] / REPORT
    try:
        _write(file, text.encode("utf-8", "replace"), named=output is not None)  # a journal may hold half a character
    except OSError as error:
        raise ConfigError([f"--output {file}: cannot be written: {error.strerror}"]) from None
    console.say(f"report     {file}")
    return 0


def _write(file: Path, text: bytes, *, named: bool) -> None:
    """A file that nobody named must be one of this user: in its place a named pipe may wait, or a link lead away.
    OSError."""
    if named:
        file.write_bytes(text)
        return
    with os.fdopen(owned.open_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as opened:
        opened.write(text)

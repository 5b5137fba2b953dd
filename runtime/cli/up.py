"""`up`: start a run and stay with it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Settings
from runtime.cluster.launchers import Nursery
from runtime.config.source import read

Script = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]


def up(file: Path = Path("cluster.toml"), *, sbatch: Script = None, settings: Settings = ()) -> int:
    """Start the roles, train, and show what happens.

    Ctrl-C finishes what is under way, saves and stops; a second one stops at once.

    Parameters
    ----------
    file
        The cluster's description.
    sbatch
        Start nothing: write the script with which Slurm's sbatch starts this into this file; "-" is stdout.
    """
    if sbatch is not None:
        from runtime.cli.sbatch import write

        return write(file, settings, sbatch)
    # before all that follows: what it imports and what this process imports take a second each
    with Nursery.start() as nursery:
        program = read(file, settings).program
        if program is not None:
            nursery.prepare(program, file.parent)
        from runtime.report.console import RunConsole
        from runtime.runs.checking import check
        from runtime.runs.up import run

        return run(check(file, settings), RunConsole(), nursery)

"""`up`: start a run and stay with it to its end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Settings, Switch
from runtime.cluster.launchers import Nursery
from runtime.config.source import RawConfig, read
from runtime.errors import ConfigError

Runs = Annotated[tuple[Path, ...] | None, Parameter(negative=(), consume_multiple=True)]

Script = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]


def up(
    file: Path = Path("cluster.toml"),
    *,
    resume: Runs = None,
    test: Switch = False,
    sbatch: Script = None,
    settings: Settings = (),
) -> int:
    """Start the roles, train, and show what happens.

    Ctrl-C finishes what is under way, saves and stops, and shows how to go on; a second one stops at once.

    Parameters
    ----------
    file
        The cluster's description.
    resume
        Go on from the newest checkpoint that is whole and fits: of this run directory, or, where none is named, of the
        last run that has one.
    test
        At the end score the last checkpoint on the test data, as the command `test` does.
    sbatch
        Start nothing: write the script with which Slurm's sbatch starts this into this file; "-" is stdout.
    """
    file, wanted = _resume(file, resume)
    if sbatch is not None:
        from runtime.cli.sbatch import write

        if wanted is not None:
            raise ConfigError(["--sbatch: found --resume beside it: write that into the script, behind `up`"])
        return write(file, settings, sbatch)
    # before all that follows: what it imports and what this process imports then go side by side
    with _nursery(read(file, settings)) as nursery:
        from runtime.cli.after import After
        from runtime.recovery.up import run
        from runtime.report.console import RunConsole
        from runtime.runs.checking import Resume, check

        runs = None if wanted is None else Resume(*wanted)
        checked = check(file, settings, runs)
        after = After(checked.loaded.program, file, settings, test=test)
        ended, console = run(checked, RunConsole(), nursery), RunConsole(live=False)
    code = after.told(ended.code, ended.directory, console.say)
    console.settle()
    return code


def _nursery(raw: RawConfig) -> AbstractContextManager[Nursery | None]:
    """Where role processes will be born; None where there are none, which saves 0.2 s of a core."""
    if raw.is_virtual:
        Nursery.forgo()
        return nullcontext()
    nursery = Nursery.start()
    if raw.program is not None:
        nursery.prepare(raw.program, raw.path.parent)
    return nursery


def _resume(file: Path, said: Sequence[Path] | None) -> tuple[Path, Sequence[Path] | None]:
    """The cluster.toml, which may stand behind --resume, and the run that stands there, if one does."""
    if said is None:
        return file, None
    files, runs = ([path for path in said if (path.suffix == ".toml") is toml] for toml in (True, False))
    if len(files) > 1 or len(runs) > 1:
        raise ConfigError([f"--resume {' '.join(map(str, said))}: expected at most one run directory"])
    return (files[0] if files else file), runs

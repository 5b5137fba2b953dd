"""`up`: start a run and stay with it to its end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Settings, Switch
from runtime.cluster.launchers import Nursery
from runtime.errors import ConfigError

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig  # importing it would load pydantic

Runs = Annotated[tuple[Path, ...] | None, Parameter(negative=(), consume_multiple=True)]

Verbose = Annotated[bool, Parameter(alias="-v", negative=())]
Script = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]


def up(
    file: Path = Path("cluster.toml"),
    *,
    resume: Runs = None,
    test: Switch = False,
    sbatch: Script = None,
    verbose: Verbose = False,
    settings: Settings = (),
) -> int:
    """Start the roles, train, and show the events of the run.

    Ctrl-C finishes the iterations under way, saves and stops, and shows how to resume; a second one
    stops at once.

    Parameters
    ----------
    file
        The cluster's description.
    resume
        Resume from the newest checkpoint that is whole and fits: of this run directory, or by
        default of the last run that has one.
    test
        At the end score the last checkpoint on the test data, as the command `test` does.
    sbatch
        Start nothing. Write the script with which Slurm's sbatch starts this run into this file;
        "-" is stdout.
    verbose
        Also show each step of the preparation, the exposed seconds of an iteration, and predictions
        that agree with the measurement.
    """
    file, wanted = _resume(file, resume)
    if sbatch is not None:
        from runtime.cli.sbatch import write

        if wanted is not None:
            raise ConfigError(
                [("--sbatch: found --resume too: add it in the script instead, after `up`")]
            )
        return write(file, settings, sbatch)
    from runtime.cluster.warnings import kept_warnings
    from runtime.config.file import load_with_program
    from runtime.runs.checking import Resume, check_plan

    with _Early() as early:
        with kept_warnings() as told:
            loaded = load_with_program(file, settings)
        early.begin(loaded.config)
        checked = check_plan(loaded, None if wanted is None else Resume(*wanted), told=told)
        # while the nursery imports the program
        from runtime.cli.after import After
        from runtime.recovery.up_runs import run
        from runtime.report.console import RunConsole

        after = After(checked.loaded.program, file, settings, test=test)
        ended = run(checked, RunConsole(verbose=verbose), early.nursery)
        console = RunConsole(live=False)
    code = after.told(*ended, console.say)
    console.settle()
    return code


class _Early(ExitStack):
    """The nursery, where role processes are started; it begins as soon as the program is known. On
    the virtual clock there is none."""

    nursery: Nursery | None = None

    def begin(self, config: ClusterConfig) -> None:
        if config.simulation.clock == "virtual":
            Nursery.forgo()
        else:
            self.nursery = self.enter_context(Nursery.of(config.program, config.raw.base))


def _resume(file: Path, said: Sequence[Path] | None) -> tuple[Path, Sequence[Path] | None]:
    """The cluster.toml, which may stand behind --resume, and the run that stands there, or None."""
    if said is None:
        return file, None
    files, runs = (
        [path for path in said if (path.suffix == ".toml") is toml] for toml in (True, False)
    )
    if len(files) > 1 or len(runs) > 1:
        raise ConfigError(
            [(f"--resume {' '.join(map(str, said))}: expected at most one run directory")]
        )
    return (files[0] if files else file), runs

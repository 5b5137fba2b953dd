"""The lines that `up` prints when a run is over: how to resume it and, on request, the score of its
last checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.attached.run_status import journal, said
from runtime.cli.main import function_of
from runtime.errors import ConfigError, ProgramFailed
from runtime.program_interface import Program
from runtime.typed_name import typed_name

FROM_OUTSIDE = {"winding down", "stopped"}  # events of a run that was ended on request
TEST = "test"  # a program's command that scores weights: (weights, file, settings=...)


class After:
    """Prints how to resume a run that is over, and scores its checkpoint. Raises ConfigError if a
    `test` is wanted and the program has no such command. `program.resumes` says whether runs can be
    resumed from a checkpoint."""

    def __init__(
        self, program: Program, file: Path, settings: Sequence[str], *, test: bool
    ) -> None:
        self._resumes = program.resumes
        self._file = file
        self._settings = tuple(settings)
        self._test = test
        self._command: str | None = program.commands.get(TEST)
        if test and self._command is None:
            raise ConfigError([f"--test: program '{program.name}' has no command '{TEST}'"])

    def told(
        self, code: int, directory: Path | None, saved: Path | None, say: Callable[[str], None]
    ) -> int:
        """Print the lines that follow a run, and score its last checkpoint if wanted. Returns the
        exit code of the whole command. `code` is the exit code of the run, and `directory` its run
        directory, or None if no run was begun. In that case `saved` is the checkpoint that left no
        iterations to do."""
        saved = saved if directory is None else _last_checkpoint(directory)
        if (
            directory is not None
            and self._resumes
            and (code or journal(directory).keys() & FROM_OUTSIDE)
        ):
            before = directory if saved is not None else _with_a_checkpoint_before(directory)
            if before is not None:
                say(f"go on     {self.again(before)}")
        if not self._test or code not in (0, 130, 143):
            return code
        if saved is None:
            raise ProgramFailed("--test: the run left no checkpoint to score")
        assert self._command is not None
        say(f"test      {saved}")
        command = function_of(TEST, self._command)
        scored = int(command(saved, self._file, settings=self._settings) or 0)
        return code or scored

    def again(self, directory: Path) -> str:
        """The command, as it is typed, that resumes a run."""
        words = ["up", str(self._file), "--resume", str(directory)]
        settings = (word for setting in self._settings for word in ("--set", setting))
        return f"{typed_name()} {shlex.join([*words, *settings])}"


def _with_a_checkpoint_before(directory: Path) -> Path | None:
    """The run to resume in place of a run that left no checkpoint. This is the run with the
    checkpoint that it began with. If it began with a model from memory, that model is lost, and a
    run that never began read none. Then it is the run that it followed, after a death or a change
    of size, if that run left a checkpoint, or else the run that this one began with."""
    told = journal(directory)
    began_with = said(told, "resumed", "checkpoint")
    after = said(told, "restart", "after") or said(told, "scaled", "after")
    if not began_with:
        died = directory.parent / Path(after).name if after else None
        return (
            died
            if died is None or _last_checkpoint(died) is not None
            else _with_a_checkpoint_before(died)
        )
    before = Path(began_with).parent
    beside = directory.parent / before.name  # the shorter path, as it is typed
    return beside if beside.resolve() == before.resolve() else before


def _last_checkpoint(directory: Path) -> Path | None:
    file = said(journal(directory), "checkpoint", "file")
    return directory / file if file else None

"""What `up` says when a run is over: how to go on from it; and, if asked to, the score of what it
saved."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.attached.run_status import journal, said
from runtime.cli.main import function_of
from runtime.errors import ConfigError, ProgramFailed
from runtime.program_interface import Program

FROM_OUTSIDE = {"winding down", "stopped"}  # events of a run that somebody ended
TEST = "test"  # the command of a program that scores weights: (weights, file, settings=...)


class After:
    """`program` may go on from a checkpoint (`resumed`), and may have the command `test`.
    ConfigError if that is wanted and it has none."""

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
        """What is told of a run that ended with this exit code; the exit code of all. `directory`:
        of the run, if one was begun; `saved`: else the checkpoint after which nothing was left to
        do."""
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
        """The command that goes on from a run, as it is typed."""
        words = ["python", "-m", "runtime", "up", str(self._file), "--resume", str(directory)]
        return shlex.join(
            [*words, *(word for setting in self._settings for word in ("--set", setting))]
        )


def _with_a_checkpoint_before(directory: Path) -> Path | None:
    """Of a run that left none, the run whose checkpoint it began with. What it began with in memory
    is gone: then the run whose death it followed, if that left one, or what that began with."""
    told = journal(directory)
    began_with = said(told, "resumed", "checkpoint")
    after = said(told, "restart", "after")
    if not began_with:
        died = directory.parent / Path(after).name if after else None
        return (
            died
            if died is None or _last_checkpoint(died) is not None
            else _with_a_checkpoint_before(died)
        )
    before = Path(began_with).parent
    beside = directory.parent / before.name  # as it is typed
    return beside if beside.resolve() == before.resolve() else before


def _last_checkpoint(directory: Path) -> Path | None:
    file = said(journal(directory), "checkpoint", "file")
    return directory / file if file else None

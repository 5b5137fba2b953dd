"""A run directory that is removed during its run, by a person or a cleaning program, is made again.

The small files are written again as they were, and the journals with all their lines: a removed
file keeps its content as long as it is open. The logs of the processes go on in the removed files,
so their lines are lost; so are the checkpoints that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from runtime.machine.private_files import replace
from runtime.reasons import reason
from runtime.regular import read_bytes
from runtime.report.journal import Journal

LOOK_SECONDS = 1.0  # between two looks
SMALL = ("run.json", "config.toml", "versions.json", "plan.json", "said.toml", "operator.key")
MOST_BYTES = 16 << 20  # of one of them, which stays in memory
LOGS = "logs"


class Remaking:
    """Looks after the directory `path`. `journals` returns the open files. `tell` is called with a
    text for people when the directory was made again, or cannot be."""

    def __init__(
        self, path: Path, journals: Callable[[], Iterable[Journal]], tell: Callable[[str], None]
    ) -> None:
        self._path = path.absolute()  # the working directory of a script may change
        self._journals = journals
        self._tell = tell
        self._small: dict[str, bytes] = {}
        self._looked = 0.0
        self._failed = False

    def __repr__(self) -> str:
        return f"<remaking of {self._path}, {len(self._small)} files kept>"

    def keep(self) -> None:
        """Read the small files, so that they can be written again. Later calls do nothing."""
        for name in () if self._small else SMALL:
            with suppress(OSError):  # this run has no such file
                self._small[name] = read_bytes(self._path / name, MOST_BYTES)

    def look(self, now: float) -> None:
        """Make the directory again if it is gone. Looks at most once in LOOK_SECONDS. `now` is in
        seconds since the run began."""
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        try:
            self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            self._remake()
        except OSError:  # it is not known whether it is gone
            pass

    def _remake(self) -> None:
        try:
            self._path.mkdir(mode=0o700, parents=True)
            (self._path / LOGS).mkdir(mode=0o700)
            for name, content in self._small.items():
                replace(self._path / name, content)
            for journal in self._journals():
                journal.remake()
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._tell(
                    f"{self._path}: it was removed, and cannot be made again: {reason(error)}"
                )
            return
        self._failed = False
        self._tell(
            f"{self._path}: it was removed during the run, and is made again: its checkpoints and "
            "the logs of its processes are lost"
        )

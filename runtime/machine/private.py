"""The private folder of a run on a machine, for its sockets and keys. If a run was killed, a later
sweep removes its folder.

    $TMPDIR/convoy-sockets-PID-XXXXXXXX/    .convoy  locked as long as process PID uses the folder
                                            .host    on which kernel and host that lock counts

`python -m runtime.machine.private PID` waits for the end of a process that is being killed, and
removes its folder.
"""

from __future__ import annotations

import os
import platform
import select
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from runtime.errors import LaunchError
from runtime.machine import owned
from runtime.machine.boot import boot_id
from runtime.machine.private_files import write_new
from runtime.reasons import reason
from runtime.terminal_text import is_plain, one_line

SOCKETS = "convoy-sockets-"
HOST = ".host"
HOST_BYTES = 400
END_SECONDS = 4.0  # the longest wait for a killed process to end


class PrivateFolder:
    """A folder with mode 0700 for the sockets and keys of a run. It is in use until `remove` is
    called or this process ends."""

    def __init__(self, hold: owned.Hold) -> None:
        self.path = hold.folder
        self._hold = hold

    def __repr__(self) -> str:
        return f"<private folder {self.path}>"

    @classmethod
    def make(cls) -> Self:
        """Make a new private folder in the temporary folder, after a sweep of the folders that dead
        runs have left there. Raises LaunchError."""
        try:
            parent = Path(tempfile.gettempdir())
        except FileNotFoundError as error:  # its text names all folders that were tried
            raise LaunchError(
                f"{reason(error)}: set TMPDIR to a folder that this user may write to"
            ) from None
        if not is_plain(str(parent)):  # it is part of addresses, which travel as text
            raise LaunchError(
                f"{one_line(str(parent))}: the temporary folder has a name with control characters "
                "or bytes that are not UTF-8: set TMPDIR to another folder"
            )
        owned.sweep(parent, f"{SOCKETS}*-*", _lies_here)
        hold = None
        try:
            while hold is None:  # a sweep by another run may be faster than the lock
                path = parent / f"{SOCKETS}{os.getpid()}-{os.urandom(4).hex()}"
                owned.make_folder(path)
                hold = owned.Hold.take(path)
            write_new(path / HOST, "\n".join(_here()).encode())
        except OSError as error:
            if hold is not None:
                hold.remove()
            text = f"{error.filename or parent}: no folder for the run can be made: {reason(error)}"
            raise LaunchError(
                f"{text}: set TMPDIR to a folder that this user may write to"
            ) from None
        return cls(hold)

    def remove(self) -> None:
        """Remove the folder with its content."""
        self._hold.remove()


def doubts() -> str:
    """Return a warning for the user about the temporary folder, or "" if the folder is safe."""
    said = os.environ.get("TMPDIR")
    used = Path(tempfile.gettempdir())
    if said and Path(said).resolve() != used.resolve():
        return (
            f"TMPDIR is {said}, where no file can be made: the private folder of the run "
            f"lies in {used}"
        )
    try:
        owned.check_way(used)
    except OSError as error:
        why = f"{error.filename}: {reason(error)}"
        return (
            f"the private folder of the run lies in {used}, and another user can replace it: {why}"
        )
    return ""


def discard(path: Path) -> None:
    """Remove the folder of a run whose launcher has ended. The lock is not checked, because the
    system may take a moment to release it."""
    if owned.is_marked(path):
        owned.remove_folder(path)


def remove(pid: int) -> bool:
    """Remove the folder that a process has left, once the process has ended. Returns False if the
    process does not end.

    A process that has this number in another PID namespace keeps its folder, which is locked.
    """
    # the process has ended already, or the system has no pidfd
    with suppress(OSError, AttributeError):
        ending = os.pidfd_open(pid)
        try:
            if not select.select([ending], [], [], END_SECONDS)[0]:
                return False
        finally:
            os.close(ending)
    with suppress(FileNotFoundError):  # no temporary folder
        owned.sweep(Path(tempfile.gettempdir()), f"{SOCKETS}{pid}-*", _lies_here)
    return True


def _here() -> tuple[str, str]:
    """Return the kernel's boot id and the host on which this process runs."""
    return boot_id(), platform.node()


def _lies_here(folder: Path) -> bool:
    """Whether the locks of the process that made the folder count here. They count if it ran on
    this kernel, or on this host before a reboot. Two hosts that share a file system may not see
    each other's locks. Raises OSError."""
    with os.fdopen(owned.open_file(folder / HOST, os.O_RDONLY), encoding="utf-8") as file:
        boot, _, host = file.read(HOST_BYTES).partition("\n")
    here = _here()
    return (boot != "" and boot == here[0]) or (host != "" and host == here[1])


def main() -> int:
    """Return 1 if the process does not end."""
    return 0 if remove(int(sys.argv[1])) else 1


if __name__ == "__main__":
    sys.exit(main())

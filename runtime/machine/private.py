"""The private folder of a run on a machine: its sockets, its keys; swept if a run was killed.

`python -m runtime.machine.private PID` waits for the end of a process that is being killed, and removes its folder.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

SOCKETS = "convoy-sockets-"
END_SECONDS = 4.0  # for a killed process to end


def make_socket_directory() -> Path:
    """A private directory (mode 0700) for the socket files of a run; sweeps those that dead runs left behind."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{SOCKETS}*-*"):
        pid = left.name.removeprefix(SOCKETS).partition("-")[0]
        if pid.isdecimal() and _is_mine(left) and not _alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{SOCKETS}{os.getpid()}-"))


def remove(pid: int) -> None:
    """Remove what a process has left that is dead."""
    for left in Path(tempfile.gettempdir()).glob(f"{SOCKETS}{pid}-*"):
        if _is_mine(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_mine(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except FileNotFoundError:  # another run sweeps at the same moment
        return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # no process can have a number of 20 digits
        return False
    except PermissionError:
        return True
    return True


def main() -> int:
    """1 if the process does not end."""
    pid = int(sys.argv[1])
    with suppress(ProcessLookupError):  # it has ended already
        ending = os.pidfd_open(pid)
        if not select.select([ending], [], [], END_SECONDS)[0]:
            return 1
    remove(pid)
    return 0


if __name__ == "__main__":
    sys.exit(main())

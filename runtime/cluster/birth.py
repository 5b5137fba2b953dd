"""Forks the process that role processes are forked from, `launchers/nursery.py`.

A run waits longest for imports. `python -m runtime up` and the agent of a machine need most of those of a nursery
themselves: each makes them first, forks its nursery, and takes it over when it knows what it is to do. Whoever has
threads already, such as a script, starts one anew.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Never

from runtime.compute import threads
from runtime.errors import LaunchError

NURSERY = "runtime.cluster.launchers.nursery"  # by name: it imports what takes time

_begun: list[Born] = []  # one at most


@dataclass
class Born:
    """The process, our end of its standard input, and what it prints."""

    process: subprocess.Popen[bytes] | Forked
    link: socket.socket
    log: IO[bytes]

    def close(self) -> None:
        """End it, at whatever it is; its children live on. It must not see the link close: it would take this process
        for killed, and remove the private folders of all its runs."""
        self.process.kill()
        self.process.wait()
        self.link.close()
        self.log.close()


class Forked:
    """A child that this process has forked, with what is used of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, minus the signal that ended it; None while it lives."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int | None:
        """The same when it has ended."""
        return self._ask(0)

    def kill(self) -> None:
        """End it, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ask(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def begin(*, agent: bool = False) -> None:
    """Fork one that `take` will hand out from this process, which has one thread and has imported nothing that takes
    time. `agent`: this process tells which sources it has, as does every child of the nursery, so they are read before
    the fork. What keeps it from starting is told by `take`."""
    gc.disable()  # as in the nursery: while importing it finds nothing
    with threads.loading_with_one(), suppress(ImportError, OSError):
        main = import_module(NURSERY).main
        from runtime.machine.versions import sources, versions

        versions()
        if agent:
            sources()
        ours, theirs = socket.socketpair()
        log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            ours.detach()
            _live_on(main, theirs, log)
        theirs.close()
        _begun.append(Born(Forked(pid), ours, log))
    gc.enable()


def _live_on(main: Callable[[], int], link: socket.socket, log: IO[bytes]) -> Never:
    """In the child: as if it had been started with these, and with no other file of its parent's."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for standard, descriptor in enumerate((link.fileno(), log.fileno(), log.fileno())):
            os.dup2(descriptor, standard)
        link.detach()
        log.close()
        for entry in Path("/dev/fd").iterdir():  # closerange tries a billion where so many are allowed
            if int(entry.name) > 2:
                with suppress(OSError):  # the one that lists them
                    os.close(int(entry.name))
        os.environ["PYTHONPATH"] = _search_path()
        status = main()
    except BaseException:  # noqa: BLE001  # its parent's code must not go on in it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def take() -> Born:
    """The one that was begun, or a new one. It imports what every role process needs, then waits to hear of the
    program. LaunchError."""
    return _begun.pop() if _begun else _born()


def end() -> None:
    """Of the one that was begun, if nobody has taken it."""
    while _begun:
        _begun.pop().close()


def _born() -> Born:
    environment = {**os.environ, **threads.variables(1), "PYTHONPATH": _search_path()}
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    with theirs:
        # not asyncio's: uvloop's copies of these descriptors stay open in the child, which then hides its end
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", NURSERY],
                stdin=theirs.fileno(), stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            log.close()
            raise LaunchError(f"the process that role processes are forked from cannot start: {error}") from None
    return Born(process, ours, log)


def _search_path() -> str:
    return os.pathsep.join(entry for entry in sys.path if entry)

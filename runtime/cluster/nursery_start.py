"""Forks the process that role processes are forked from, `launchers/nursery.py`.

A run waits longest for imports. `python -m runtime up` and the agent of a machine need those of a
nursery themselves. An agent makes most of them first, forks its nursery, and takes it over when it
knows what it is to do. `up` has the program to import too, and forks when it has. Whoever has
threads by then, such as a script, starts one anew.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Never

from runtime.compute import threads
from runtime.errors import LaunchError
from runtime.reasons import reason

NURSERY = "runtime.cluster.launchers.nursery"  # by name: it imports what takes time

_begun: list[Born] = []  # one at most
_expected: list[ExitStack] = []  # one at most, while `take` may fork this process: what ends then
_before: set[int] = set()  # descriptors that this process was started with


@dataclass
class Born:
    """The process, our end of its standard input, and what it prints."""

    process: subprocess.Popen[bytes] | Forked
    link: socket.socket
    log: IO[bytes]

    def close(self) -> None:
        """End it, at whatever it is; its children live on. It must not see the link close: it would
        take this process for killed, and remove the private folders of all its runs."""
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


class _Child(BaseException):
    """Ends what a forked process was about to do as its parent did; `ends` are the arguments of
    `_live_on`."""

    def __init__(self, *ends: Any) -> None:
        self.ends = ends


def bearing(main: Callable[[], int], *, early: bool) -> int:
    """The result of `main`, within which `take` hands out a fork of this process: one that is
    forked now, if `early`, else at that moment. In the fork nothing of `main` is left."""
    try:
        begin() if early else expect()
        return main()
    except _Child as child:
        ends = child.ends
    finally:
        end()
    return _live_on(*ends)


def begin() -> None:
    """Fork one that `take` will hand out from this process, which has one thread and has imported
    nothing that takes time. This process tells which sources it has, as does every child of the
    nursery, so they are read before the fork. What keeps it from starting is told by `take`."""
    _before.update(_open())
    with _loading(), suppress(ImportError, OSError):
        import_module(NURSERY)
        from runtime.machine.versions import sources, versions

        versions()
        sources()
        _begun.append(_forked(_live_on))


def expect() -> None:
    """From here on this process, which has one thread, imports what its nursery needs too: `take`
    forks it."""
    _before.update(_open())
    _expected.append(ends := ExitStack())
    ends.enter_context(_loading())


@contextmanager
def _loading() -> Iterator[None]:
    """What is imported meanwhile starts no thread, and is not looked through for circles: it has
    none."""
    gc.disable()
    try:
        with threads.loading_with_one():
            yield
    finally:
        gc.enable()


def _forked(become: Callable[..., Never]) -> Born:
    """OSError. `become`: in the child."""
    main = import_module(NURSERY).main
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    sys.stdout.flush()  # or the child would say it again
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        become(main, ours, theirs, log)
    theirs.close()
    return Born(Forked(pid), ours, log)


def _live_on(
    main: Callable[[], int], ours: socket.socket, link: socket.socket, log: IO[bytes]
) -> Never:
    """In the child: as if it had been started with these, and had imported itself what its parent
    has. So what a program has opened stays open."""
    status = 1
    try:
        os.setsid()
        for standard, descriptor in enumerate((link.fileno(), log.fileno(), log.fileno())):
            os.dup2(descriptor, standard)
        for end in (ours, link, log):
            end.close()
        for descriptor in _before:
            if descriptor > 2:
                with suppress(OSError):  # its parent has closed it
                    os.close(descriptor)
        os.environ.update(threads.variables(1))
        os.environ["PYTHONPATH"] = _search_path()
        status = main()
    except BaseException:  # noqa: BLE001  # its parent's code must not go on in it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _unwound(*ends: Any) -> Never:
    """In the child: its stack, which everybody sees who asks what it does, shall not be that of its
    parent."""
    raise _Child(*ends)


def _open() -> set[int]:
    """Descriptors; none where the system does not list them."""
    found = set()
    with suppress(OSError):
        # closerange tries a billion where so many are allowed
        for entry in list(Path("/dev/fd").iterdir()):
            with suppress(OSError):  # that of the list itself is closed again
                os.fstat(int(entry.name))
                found.add(int(entry.name))
    return found


def _is_alone() -> bool:
    """Has this process one thread, also of libraries?"""
    with suppress(OSError):  # elsewhere than on Linux
        return len(list(Path("/proc/self/task").iterdir())) == 1
    return threading.active_count() == 1


def take() -> Born:
    """The one that was begun, or a new one: a fork of this process where that is expected, and it
    has one thread. It imports what every role process needs, then waits to hear of the program.
    LaunchError."""
    if _begun:
        return _begun.pop()
    if _expected:
        with _expected.pop(), suppress(OSError):  # what keeps it from starting `_born` tells
            if _is_alone():
                return _forked(_unwound)
    return _born()


def end() -> None:
    """Of the one that was begun, if nobody has taken it; none is expected any more."""
    while _expected:
        _expected.pop().close()
    while _begun:
        _begun.pop().close()


def _born() -> Born:
    environment = {**os.environ, **threads.variables(1), "PYTHONPATH": _search_path()}
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    with theirs:
        # not asyncio's: uvloop's copies of these descriptors stay open in the child, which then
        # hides its end
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", NURSERY],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            log.close()
            raise LaunchError(
                f"the process that role processes are forked from cannot start: {reason(error)}"
            ) from None
    return Born(process, ours, log)


def _search_path() -> str:
    return os.pathsep.join(entry for entry in sys.path if entry)

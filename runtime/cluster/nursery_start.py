"""Starting the nursery: the process that role processes are forked from (`launchers/nursery.py`).

Imports take most of the time in which a run starts. `python -m runtime up` and the agent of a
machine need the same imports as a nursery. An agent makes most of them first, forks its nursery,
and takes it over once it knows its task. `up` has to import the program too, and forks after that.
A process that has several threads by then, such as a script, starts a new Python for its nursery.
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

NURSERY = "runtime.cluster.launchers.nursery"  # by name, since its imports take time

_begun: list[Born] = []  # at most one: the nursery that was started early
_expected: list[ExitStack] = []  # at most one, while `take` may fork: contexts to leave then
_before: set[int] = set()  # descriptors that this process was started with


@dataclass
class Born:
    """A nursery: its process, our end of its standard input, and its output."""

    process: subprocess.Popen[bytes] | Forked
    link: socket.socket
    log: IO[bytes]

    def close(self) -> None:
        """Kill the nursery; its children live on. It must not see the link close. Otherwise it
        would conclude that this process was killed, and remove the private folders of all its
        runs."""
        self.process.kill()
        self.process.wait()
        self.link.close()
        self.log.close()


class Forked:
    """A child that this process has forked, with the methods of subprocess.Popen that are
    needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status, or minus the signal that ended it. None while it lives."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait until it has ended, and return the same."""
        return self._ask(0)

    def kill(self) -> None:
        """Kill it if it lives."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ask(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Child(BaseException):
    """Leaves the stack of the parent in a forked process. `ends` are the arguments of
    `_live_on`."""

    def __init__(self, *ends: Any) -> None:
        self.ends = ends


def bearing(main: Callable[[], int], *, early: bool) -> int:
    """Return the result of `main`, during which `take` may return a fork of this process.

    The fork is made now if `early`, or else when `take` is called. In the fork, the stack of `main`
    is left at once.
    """
    try:
        begin() if early else expect()
        return main()
    except _Child as child:
        ends = child.ends
    finally:
        end()
    return _live_on(*ends)


def begin() -> None:
    """Fork a nursery for `take` from this process, which has one thread and no slow imports yet.

    This process reports the checksum of its sources, and so does every child of the nursery. They
    are therefore read before the fork. If the fork fails, `take` reports the reason.
    """
    _before.update(_open())
    with _loading(), suppress(ImportError, OSError):
        import_module(NURSERY)
        from runtime.machine.versions import sources, versions

        versions()
        sources()
        _begun.append(_forked(_live_on))


def expect() -> None:
    """Let `take` fork this process. It has one thread, and from now on it makes the imports that
    its nursery needs too."""
    _before.update(_open())
    _expected.append(ends := ExitStack())
    ends.enter_context(_loading())


@contextmanager
def _loading() -> Iterator[None]:
    """Import without starting threads, and without garbage collection, since imports make no
    garbage in cycles."""
    gc.disable()
    try:
        with threads.loading_with_one():
            yield
    finally:
        gc.enable()


def _forked(become: Callable[..., Never]) -> Born:
    """Fork this process and call `become` in the child. Raises OSError."""
    main = import_module(NURSERY).main
    log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    ours, theirs = socket.socketpair()
    sys.stdout.flush()  # otherwise the child would print it again
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
    """Run the nursery in the child, as if it had been started with these ends and had made the
    parent's imports itself. Files that the program has opened stay open."""
    status = 1
    try:
        os.setsid()
        for standard, descriptor in enumerate((link.fileno(), log.fileno(), log.fileno())):
            os.dup2(descriptor, standard)
        for end in (ours, link, log):
            end.close()
        for descriptor in _before:
            if descriptor > 2:
                with suppress(OSError):  # the parent has closed it
                    os.close(descriptor)
        os.environ.update(threads.variables(1))
        os.environ["PYTHONPATH"] = _search_path()
        status = main()
    except BaseException:  # noqa: BLE001  # the parent's code must not go on in the child
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _unwound(*ends: Any) -> Never:
    """Leave the parent's stack in the child, so that it does not appear in the child's stacks."""
    raise _Child(*ends)


def _open() -> set[int]:
    """Return the open descriptors; an empty set if the system does not list them."""
    found = set()
    with suppress(OSError):
        # os.closerange would try up to a billion numbers, if so many descriptors are allowed
        for entry in list(Path("/dev/fd").iterdir()):
            with suppress(OSError):  # the descriptor of the listing itself is closed already
                os.fstat(int(entry.name))
                found.add(int(entry.name))
    return found


def _is_alone() -> bool:
    """Whether this process has only one thread, including threads of libraries."""
    with suppress(OSError):  # not on Linux
        return len(list(Path("/proc/self/task").iterdir())) == 1
    return threading.active_count() == 1


def take() -> Born:
    """Return the nursery that was started early, or a new one.

    A new one is a fork of this process if that is expected and this process has one thread.
    Otherwise it is a new Python. It makes the imports of every role process, then waits for the
    name of the program. Raises LaunchError.
    """
    if _begun:
        return _begun.pop()
    if _expected:
        with _expected.pop(), suppress(OSError):  # if the fork fails, `_born` reports why
            if _is_alone():
                return _forked(_unwound)
    return _born()


def end() -> None:
    """End the nursery that was started early, if it was not taken. No fork is expected any more."""
    while _expected:
        _expected.pop().close()
    while _begun:
        _begun.pop().close()


def _born() -> Born:
    environment = {**os.environ, **threads.variables(1), "PYTHONPATH": _search_path()}
    try:
        log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    except OSError as error:
        raise LaunchError(
            f"{reason(error)}: set TMPDIR to a folder that this user may write to"
        ) from None
    ours, theirs = socket.socketpair()
    with theirs:
        # not asyncio's subprocess: uvloop's copies of these descriptors stay open in the child, so
        # that its end would not be noticed
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

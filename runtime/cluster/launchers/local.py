"""The launcher of role processes on this machine. Each process has its own session and log file, a
number of BLAS threads, and its standard input as lifeline.

The processes are forked from a `nursery`, which has imported all that they need. The nursery is
started early if possible (`nursery_start`), so that its imports and those of the launching process
overlap.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from runtime import own_packages
from runtime.cluster import nursery_start
from runtime.cluster.launcher import LOST, Early, Launched, Launcher, LaunchPlan, describe_exit
from runtime.cluster.nursery_start import Born
from runtime.errors import LaunchError
from runtime.machine import forks, namespaces
from runtime.machine.owned import open_file
from runtime.machine.versions import identity
from runtime.plan.topology import ProcessSpec
from runtime.reasons import reason

if TYPE_CHECKING:
    # importing it loads pydantic, and `up` starts its nursery before that
    from runtime.config.sections import Machine

NEWS_BYTES = 65536
STOPPED = ("T", "t")  # the states of a stopped process in /proc
NEWS_SECONDS = 0.3  # for the nursery to report how a process ended, once it is seen to have ended


@dataclass
class LocalProcess(Launched):
    """A process of this machine. `lifeline` is the write end of its standard input; the process
    ends itself when that closes. `handle` becomes readable when the process has ended, also if its
    nursery is stopped. It is None on systems without such handles."""

    name: str
    log: Path
    pid: int
    lifeline: int
    ended: asyncio.Future[int]
    handle: int | None = None

    def watch(self) -> None:
        """Watch for the end of the process."""
        # fails if the process has ended already, which the nursery reports, and on systems without
        # pidfd
        with suppress(OSError, AttributeError):
            self.handle = os.pidfd_open(self.pid)
            asyncio.get_running_loop().add_reader(self.handle, self._gone)

    def let_go(self) -> None:
        """Release the resources: the end of the process is known, or does not matter any more."""
        self._unwatch()
        lifeline = self.lifeline
        self.lifeline = -1
        forks.close(lifeline)

    def end(self, status: int) -> None:
        """Note how the process ended."""
        self.let_go()
        if not self.ended.done():
            self.ended.set_result(status)

    def _gone(self) -> None:
        self._unwatch()
        asyncio.get_running_loop().call_later(NEWS_SECONDS, lambda: self.end(_status_of(self.pid)))

    def _unwatch(self) -> None:
        handle = self.handle
        self.handle = None
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

    async def wait(self) -> int:
        """Wait until the process has ended. Returns its exit status, or minus the signal number if
        a signal ended it."""
        return await asyncio.shield(self.ended)

    def signal(self, number: signal.Signals) -> None:
        if not self.ended.done():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return


@dataclass
class Nursery(Born, Early):
    """The launcher's side of a nursery. News arrive at any time. `ordered` has a future for each
    process that was ordered and not yet forked, in the order of the orders. Its result is the
    process id, or None if the nursery has ended. After a cancelled launch, no task waits for it.
    `gone` is True if the nursery has ended."""

    prepared: bool = False
    gone: bool = False
    ordered: deque[asyncio.Future[int | None]] = field(default_factory=deque)
    children: dict[int, LocalProcess] = field(default_factory=dict)
    unread: bytes = b""

    @classmethod
    def start(cls) -> Self:
        """Return the nursery that was started early, or a new one. Raises LaunchError."""
        first = nursery_start.take()
        return cls(first.process, first.link, first.log)

    @classmethod
    def of(cls, program: str, folder: Path) -> Self:
        """Start a nursery for a program that this process has imported, perhaps from this folder.
        Raises LaunchError."""
        identity(program)  # cached before the fork, since every child reports it too
        nursery = cls.start()
        nursery.prepare(program, folder)
        return nursery

    @staticmethod
    def forgo() -> None:
        """End the nursery that was started early: there will be no role processes."""
        nursery_start.end()

    def prepare(self, program: str, search: Path | None = None) -> None:
        if self.prepared:
            return
        self.prepared = True
        places = [*sys.path, *([] if search is None else [str(search)])]
        path = [str(Path(place).resolve()) for place in places if place]
        told = {"program": program, "path": path, "ours": own_packages.are_first()}
        with suppress(OSError):  # a dead nursery is noticed at the first fork
            self.link.sendall(json.dumps(told).encode() + b"\n")

    def barren(self) -> str:
        pid = self.process.pid
        if self.gone or self.process.poll() is not None:
            return (
                f"the process that role processes are forked from (pid {pid}) has ended{_how(self)}"
            )
        if not self.ordered and _stat(pid)[0] not in STOPPED:
            return ""
        return self.waiting()

    def waiting(self) -> str:
        """Describe why the nursery has not forked a process yet."""
        pid = self.process.pid
        is_so = (
            "is stopped"
            if _stat(pid)[0] in STOPPED
            else ("does not answer: it may still import the program")
        )
        return f"the process that role processes are forked from (pid {pid}) {is_so}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> None:
        """Take the nursery's news. If the nursery has died, kill its children, since their ends can
        no longer be reported."""
        try:
            news = self.link.recv(NEWS_BYTES)
        except ConnectionError:
            news = b""
        if not news:
            asyncio.get_running_loop().remove_reader(self.link)
            self.gone = True
            while self.ordered:
                self._born(None)
            for child in self.children.values():
                child.signal(signal.SIGKILL)  # a child that is stopped could not end itself
                child.end(LOST)
        *lines, self.unread = (self.unread + news).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "status" not in said:
                self._born(said["pid"])
            elif (ended := self.children.pop(said["pid"], None)) is not None:
                ended.end(said["status"])

    def _born(self, pid: int | None) -> None:
        ordered = self.ordered.popleft()
        if not ordered.done():  # its launch was not cancelled
            ordered.set_result(pid)

    def last_lines(self, count: int = 20) -> list[str]:
        """Return the last lines of its log."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace").splitlines()[-count:]


class LocalLauncher(Launcher):
    """Launches processes of one run on this machine. They are forked from a nursery that was
    started early and may also serve the next run, or from a nursery of this launcher. All its
    machines are this one; some are network namespaces."""

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        self.logs = plan.directory / "logs"
        self._nursery: Nursery | None = None

    async def open(self, machine: Machine) -> None:
        if machine.namespace is not None:
            namespaces.check(machine.name, machine.namespace)
        self.begin()

    def begin(self) -> None:
        """Make this machine ready. Raises LaunchError."""
        try:
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"{self.logs}: cannot be made: {reason(error)}") from None
        if self._nursery is None:
            early = self.plan.early
            self._nursery = nursery = early if isinstance(early, Nursery) else Nursery.start()
            nursery.prepare(self.plan.program)
            asyncio.get_running_loop().add_reader(nursery.link, nursery.read)

    async def launch(self, spec: ProcessSpec, incarnation: int) -> Launched:
        nursery = self._nursery
        path = self.logs / f"{spec.name}.log"
        if nursery is None:
            raise LaunchError(
                f"process '{spec.name}' could not be started: its machine was not opened"
            )
        order = {"process": spec.name, "run": str(self.plan.directory), "incarnation": incarnation}
        lifeline, writable = os.pipe()
        try:
            log = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                socket.send_fds(nursery.link, [json.dumps(order).encode()], [lifeline, log])
            finally:
                os.close(log)
            ordered: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            nursery.ordered.append(ordered)
            pid = await ordered
        except (BrokenPipeError, ConnectionResetError):
            # the nursery has ended: its log may have the reason
            pid = None
        except OSError as error:
            os.close(writable)
            raise LaunchError(
                f"process '{spec.name}' could not be started: {reason(error)}"
            ) from None
        except asyncio.CancelledError:  # a process that is still forked finds its lifeline closed
            os.close(writable)
            raise
        finally:
            os.close(lifeline)
        if pid is None:
            os.close(writable)
            said = "".join(f"\n    {line}" for line in nursery.last_lines())
            raise LaunchError(
                f"process '{spec.name}' could not be started: its nursery "
                f"ended{_how(nursery)}{said}"
            )
        forks.keep_from_children(writable)
        launched = LocalProcess(
            spec.name, path, pid, writable, asyncio.get_running_loop().create_future()
        )
        nursery.children[pid] = launched
        launched.watch()
        return launched

    def waiting(self) -> str:
        if self._nursery is None:
            return super().waiting()
        return self._nursery.waiting()

    async def close(self) -> None:
        nursery = self._nursery
        self._nursery = None
        if nursery is None:
            return
        asyncio.get_running_loop().remove_reader(nursery.link)
        if nursery is not self.plan.early:
            await asyncio.to_thread(nursery.close)
        for child in nursery.children.values():
            child.let_go()
        nursery.children.clear()


def _how(nursery: Nursery) -> str:
    status = nursery.process.poll()
    return f" ({describe_exit(status, None)})" if status else ""


def _stat(pid: int) -> tuple[str, int | None]:
    """Return the state of a process and its exit code in the format of `waitpid`, from /proc. State
    "Z" means that the process has ended and its parent has not collected its status. Returns "",
    None if /proc has no entry."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "", None
    return fields[0], int(fields[-1])


def _status_of(pid: int) -> int:
    """Return how a process ended whose status was not collected; LOST if that is not known."""
    state, code = _stat(pid)
    return os.waitstatus_to_exitcode(code) if state == "Z" and code is not None else LOST

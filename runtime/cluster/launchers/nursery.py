"""The process that role processes are forked from. It is a fork of `up` or of an agent. A process
with several threads starts it as `python -m runtime.cluster.launchers.nursery`.

Importing Python, numpy, the program and its kernels' compiler takes about a second of a core. Six
processes that each do it need three seconds of two cores. Here it is done once, and the memory
pages of the imports are shared. A program may define `preload()` to prepare more than its import.
`preload` must not start a thread or open a device.

Standard input is a stream socket to the launcher. Its first message names the program. Each order
comes with two descriptors, the new process's standard input (its lifeline) and its log:

      launcher                                nursery
          |  --- {"program": p, "path": [...]} -->   import
          |  --- {"process": name, "run": d, "incarnation": n} + 2 fds -->   fork
          |  <-- {"pid": p} ------------------
          |  <-- {"pid": p, "status": s} -----   whenever one has ended; s < 0: by that signal

When the launcher's end closes, the launcher was killed. The nursery then removes the launcher's
private folder and exits. The children have separate lifelines.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from runtime import own_packages, standard_streams
from runtime.cluster import process
from runtime.machine import private
from runtime.machine.loop import event_loop_factory
from runtime.machine.parent import go_on_without_parent
from runtime.machine.versions import identity
from runtime.plan.program import import_program
from runtime.plan.run_plan import RunPlan

ORDER_BYTES = 8192  # more than any order: a path has at most 4096 bytes


def main() -> int:
    """Serve the launcher and, in each forked child, run a role process."""
    standard_streams.show_any_text("utf-8")  # logs, whatever the locale of the terminal is
    with suppress(OSError):
        Path("/proc/self/comm").write_text("nursery", "utf-8")  # the name in `top`; Linux only
    launcher = socket.socket(fileno=os.dup(0))
    whose = os.getppid()
    go_on_without_parent()
    told = _first_line(launcher)
    if not told:
        return 0
    sys.path[:] = json.loads(told)["path"]
    if json.loads(told)["ours"]:
        own_packages.put_first()
    gc.disable()  # collections during imports find nothing, and take 60 ms
    event_loop_factory()
    # errors of the program are left to the role process, which reports them with its name
    with suppress(Exception):
        program = import_program(json.loads(told)["program"])
        program.preload()
        identity(json.loads(told)["program"])  # cached, since every child reports it
    # imported objects stay alive: a collection would touch, and so copy, the shared pages
    gc.freeze()
    gc.enable()
    order = Nursery(launcher).serve()
    if order is None:
        private.remove(whose)
        return 0
    status = _live(Path(order["run"]), order["process"], order["incarnation"])
    logging.shutdown()
    # a regular exit frees objects, which copies shared pages: 1.5 s instead of 0.6 s for six
    # processes
    os._exit(status)


def _first_line(launcher: socket.socket) -> bytes:
    """Read the first line byte by byte, since the data after it come with descriptors."""
    line = b""
    while not line.endswith(b"\n"):
        byte = launcher.recv(1)
        if not byte:
            return b""
        line += byte
    return line


def _live(directory: Path, name: str, incarnation: int) -> int:
    plan = RunPlan.read(directory)
    sys.path[:0] = [entry for entry in plan.import_path if entry not in sys.path]
    return process.live(plan, directory, name, incarnation)


class Nursery:
    """Forks processes on order and reports how each child ended."""

    def __init__(self, launcher: socket.socket) -> None:
        self._launcher = launcher
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)

    def serve(self) -> dict[str, Any] | None:
        """Serve until the launcher has ended, and return None. In a forked child, return its
        order."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # needed for the byte in the wake-up socket
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles Ctrl-C
        signal.set_wakeup_fd(self._wake.fileno())
        with selectors.DefaultSelector() as ready:
            ready.register(self._launcher, selectors.EVENT_READ)
            ready.register(self._ended, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._ended:
                        self._ended.recv(ORDER_BYTES)
                        self._bury()
                        continue
                    order, fds, _, _ = socket.recv_fds(self._launcher, ORDER_BYTES, 2)
                    if not order:
                        return None
                    if self._fork(fds):
                        return dict(json.loads(order))

    def _fork(self, fds: list[int]) -> bool:
        """Fork a process. Returns True in the child."""
        pid = os.fork()
        if pid:
            for fd in fds:
                os.close(fd)
            self._tell(pid=pid)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        go_on_without_parent()
        os.setsid()
        lifeline, log = fds
        for fd, standard in ((lifeline, 0), (log, 1), (log, 2)):
            os.dup2(fd, standard)
        for fd in (lifeline, log):
            os.close(fd)
        for end in (self._launcher, self._ended, self._wake):
            end.close()
        return True

    def _bury(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._tell(pid=pid, status=os.waitstatus_to_exitcode(status))

    def _tell(self, **news: Any) -> None:
        with suppress(OSError):  # the death of the launcher is noticed by its closed end
            self._launcher.sendall(json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())

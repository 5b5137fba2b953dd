"""Starts the process that role processes are forked from, `launchers/nursery.py`, and imports nothing else.

It is what a run waits for longest: a second of imports. `python -m runtime up` begins it before it imports anything
that takes time, and takes it over when it knows what it is to do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from runtime.compute import threads
from runtime.errors import LaunchError

_begun: list[Born] = []  # one at most


@dataclass
class Born:
    """The process, our end of its standard input, and what it prints."""

    process: subprocess.Popen[bytes]
    link: socket.socket
    log: IO[bytes]

    def close(self) -> None:
        """End it, at whatever it is; its children live on. It must not see the link close: it would take this process
        for killed, and remove the private folders of all its runs."""
        self.process.kill()
        self.process.wait()
        self.link.close()
        self.log.close()


def begin() -> None:
    """Start one that `take` will hand out. What keeps it from starting is told by `take`."""
    with suppress(LaunchError):
        _begun.append(_born())


def take() -> Born:
    """The one that was begun, or a new one. It imports what every role process needs, then waits to hear of the
    program. LaunchError."""
    return _begun.pop() if _begun else _born()


def end() -> None:
    """Of the one that was begun, if nobody has taken it."""
    while _begun:
        _begun.pop().close()


def _born() -> Born:
    environment = {**os.environ, **threads.variables(1)}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
    with theirs:
        # not asyncio's: uvloop's copies of these descriptors stay open in the child, which then hides its end
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "runtime.cluster.launchers.nursery"],
                stdin=theirs.fileno(), stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            log.close()
            raise LaunchError(f"the process that role processes are forked from cannot start: {error}") from None
    return Born(process, ours, log)

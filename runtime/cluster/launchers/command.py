"""A command of this host that starts an agent on another machine. The command gets the secret line
on its standard input, which then stays open.

Its standard error is kept, since the last line shows why no agent came.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Self

from runtime.cluster.launcher import describe_exit
from runtime.cluster.launchers.agents import Handle
from runtime.errors import LaunchError
from runtime.reasons import reason
from runtime.terminal_text import bounded, one_line

LINES = 20
LINE_BYTES = 4096


class Command(Handle):
    """A command. `name` is its name for people, such as "ssh node7"."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self._process = process
        self._name = name
        self._said: deque[str] = deque(maxlen=LINES)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        threading.Thread(target=self._read, name=name, daemon=True).start()

    @classmethod
    def start(cls, words: Sequence[str], line: str, name: str) -> Self:
        """Start the command in a separate session, since `up` handles Ctrl-C. Raises
        LaunchError."""
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"{name}: {words[0]} cannot be started: {reason(error)}") from None
        assert process.stdin is not None
        with suppress(OSError):  # the command has ended already, and has printed why
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
        return cls(process, name)

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def waiting(self) -> str:
        return (
            f"{self._name} has printed {self._last!r}"
            if self._said
            else f"{self._name} does not answer"
        )

    @property
    def _last(self) -> str:
        return next((line for line in reversed(self._said) if line.strip()), "")

    def _read(self) -> None:
        """Read the command's output and its exit status, in a thread. Other processes may keep its
        standard error open, so the end of that stream does not count."""
        assert self._process.stderr is not None
        reader = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        reader.start()
        status = self._process.wait()
        reader.join(timeout=0.5)
        with suppress(RuntimeError):  # the event loop has ended: no task waits any more
            self._loop.call_soon_threadsafe(self._over, status)

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(LINE_BYTES):
                self._said.append(bounded(one_line(line.decode(errors="replace").strip())))

    def _over(self, status: int) -> None:
        how = describe_exit(status)
        text = (
            f"{self._name}: {self._last}"
            if self._last
            else f"{self._name} {how} and printed nothing"
        )
        if not self._ended.done():
            self._ended.set_result(text)

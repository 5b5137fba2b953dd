"""A real pseudo-terminal with an emulator behind it: the screen that a person sees, line by line,
and the lines that have scrolled away.
"""

from __future__ import annotations

import fcntl
import os
import pty
import queue
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyte

PATIENCE = 60.0  # seconds without new output


class Terminal:
    """A command on a terminal of so many columns and lines. With `echo`, the terminal shows the
    typed keys.
    """

    def __init__(
        self,
        command: list[str],
        columns: int,
        lines: int,
        cwd: Path,
        environ: Mapping[str, str] | None = None,
        *,
        echo: bool = True,
    ) -> None:
        self.columns = columns
        self.lines = lines
        self.raw = b""
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if not echo:
            modes = termios.tcgetattr(slave)
            modes[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, modes)
        environ = {**(os.environ if environ is None else environ), "TERM": "xterm-256color"}
        environ.pop("COLUMNS", None)
        environ.pop("LINES", None)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def shown(self) -> list[str]:
        """The lines of the screen."""
        return [line.rstrip() for line in self._screen.display]

    def scrolled(self) -> list[str]:
        """The lines that have left the screen at the top."""
        lines = [line[at].data for line in self._screen.history.top for at in range(self.columns)]
        return [
            "".join(lines[at : at + self.columns]).rstrip()
            for at in range(0, len(lines), self.columns)
        ]

    def echoes(self) -> bool:
        """Return whether the terminal echoes typed keys and passes them on line by line."""
        modes: int = termios.tcgetattr(self._fd)[3]
        return modes & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._fd, keys)

    def until(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        """Read until `wanted` returns true for the screen; return the screen. Raises AssertionError
        if the command ends or no output comes.
        """
        for shown in self._frames():
            if wanted(shown):
                return shown
        raise AssertionError(
            "the command ended before:\n" + "\n".join([*self.scrolled(), *self.shown()])
        )

    def end(self) -> int:
        """Read until the command has ended; return its exit status."""
        for _ in self._frames():
            pass
        return self.process.wait(PATIENCE)

    def _frames(self) -> Iterator[list[str]]:
        while True:
            try:
                said = self._said.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(
                    "no new output on the terminal:\n" + "\n".join(self.shown())
                ) from None
            if not said:
                self._said.put(b"")  # for the next call
                return
            self.raw += said
            self._stream.feed(said)
            yield self.shown()

    def _read(self) -> None:
        """Read the output as soon as it comes. The emulator is slow on a busy machine, and a run
        drops lines if no process reads them.
        """
        said = b"-"
        while said:
            try:
                said = os.read(self._fd, 65536)
            except OSError:  # the process that wrote to the terminal has ended
                said = b""
            self._said.put(said)

    def close(self) -> None:
        """End the command and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._fd)


@contextmanager
def terminal(
    command: list[str],
    columns: int,
    lines: int,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    *,
    echo: bool = True,
) -> Iterator[Terminal]:
    """Run a command on a Terminal, and close it at the end of the block."""
    made = Terminal(command, columns, lines, cwd, environ, echo=echo)
    try:
        yield made
    finally:
        made.close()

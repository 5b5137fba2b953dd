"""A stream that does not wait for its reader. A terminal that is stopped (Ctrl-S) or a pipe that
nobody reads takes nothing more once it is full, and whoever writes waits: here that is a thread,
not the run."""

from __future__ import annotations

import atexit
import io
import os
import threading
from collections import deque
from contextlib import suppress
from typing import TextIO, cast

MOST = 64 << 10  # characters that wait for the reader: 30 tables, or 700 lines
END_SECONDS = 2.0  # how long the last lines wait for a reader who takes nothing


def nonblocking(stream: TextIO) -> TextIO:
    """The stream, as one that does not wait; itself if it has no descriptor, as in a test."""
    try:
        found = NonblockingStream(stream, stream.fileno())
    except (OSError, ValueError):
        return stream
    atexit.register(found.settle_at_exit)  # whoever writes last need not think of it
    return cast(TextIO, found)


class NonblockingStream(io.TextIOBase):
    """What does not fit is left out; how much is told as soon as the reader reads again. An error
    of the stream is raised by what is written next, or by `settle`. Thread-safe."""

    def __init__(self, stream: TextIO, descriptor: int) -> None:
        stream.flush()
        self._descriptor = descriptor
        self._is_terminal = stream.isatty()
        self._encoding = stream.encoding
        self._errors = stream.errors or "strict"
        self._changed = threading.Condition()
        self._texts: deque[str] = deque()
        self._size = 0  # characters that wait, with those that are being written
        self._left_out = 0  # lines
        self._error: OSError | None = None
        self._waited_in_vain = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<a patient stream, {self._size} characters wait, {self._left_out} lines left out>"

    @property
    def encoding(self) -> str:  # type: ignore[override]  # in Python it is read-only there too
        """The stream's."""
        return self._encoding

    def isatty(self) -> bool:
        """As the stream."""
        return self._is_terminal

    def fileno(self) -> int:
        """As the stream."""
        return self._descriptor

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Take it, to be written as soon as the reader lets it."""
        with self._changed:
            self._raise()
            if self._size + len(text) > MOST and self._size:
                self._left_out += text.count("\n")
            else:
                self._texts.append(text)
                self._size += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="stdout", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing: the thread never holds anything back."""

    def settle(self, seconds: float = END_SECONDS) -> int:
        """Wait until all is written, but not for long. How many lines the reader did not take."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._error or not (self._size or self._left_out), seconds
            )
            self._waited_in_vain = not done
            self._raise()
            return self._left_out + sum(text.count("\n") for text in self._texts)

    def settle_at_exit(self) -> None:
        """The same, when nobody can be told any more; not for a reader who was waited for
        already."""
        if not self._waited_in_vain:
            with suppress(OSError):
                self.settle()

    def _raise(self) -> None:
        error = self._error
        self._error = None
        if error is not None:
            raise error

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts or self._left_out)
                if not self._texts:
                    self._texts.append(
                        f"... {self._left_out} lines are not shown: nobody read them\n"
                    )
                    self._size = self._size + len(self._texts[0])
                    self._left_out = 0
                text = self._texts[0]  # it stays there until it is written: `settle` counts it
            try:
                self._send(text.encode(self._encoding, self._errors))
            except OSError as error:
                with self._changed:
                    self._error = error
                    self._texts = deque([text])
                    self._size = len(text)
                    self._left_out = 0
            with self._changed:
                self._texts.popleft()
                self._size -= len(text)
                self._changed.notify_all()

    def _send(self, data: bytes) -> None:
        """Straight to the descriptor: a lock of the stream would be held for as long as its reader
        reads nothing."""
        while data:
            data = data[os.write(self._descriptor, data) :]

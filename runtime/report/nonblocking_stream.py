"""A stream that does not wait for its reader. A stopped terminal (Ctrl-S) or a pipe that is not
read accepts no more once it is full, and then the writer has to wait. Here a thread waits, not the
run."""

from __future__ import annotations

import atexit
import io
import os
import threading
from collections import deque
from contextlib import suppress
from typing import TextIO, cast

MOST = 64 << 10  # characters that may wait for the reader: 30 tables, or 700 lines
END_SECONDS = 2.0  # how long the last lines wait for a reader that reads nothing


def nonblocking(stream: TextIO) -> TextIO:
    """The stream, wrapped so that writing never waits. Returns `stream` itself if it has no
    descriptor, as in a test."""
    try:
        found = NonblockingStream(stream, stream.fileno())
    except (OSError, ValueError):
        return stream
    atexit.register(found.settle_at_exit)  # so the last writer need not call it
    return cast(TextIO, found)


class NonblockingStream(io.TextIOBase):
    """Drops lines that do not fit into its buffer, and writes how many were dropped as soon as the
    reader reads again. An error of the stream is raised by the next `write`, or by `settle`.
    Thread-safe."""

    def __init__(self, stream: TextIO, descriptor: int) -> None:
        stream.flush()
        self._descriptor = descriptor
        self._is_terminal = stream.isatty()
        self._encoding = stream.encoding
        # the writing thread has no one to report a character to that the encoding lacks
        self._errors = "backslashreplace" if stream.errors in (None, "strict") else stream.errors
        self._changed = threading.Condition()
        self._texts: deque[str] = deque()
        self._size = 0  # waiting characters, including the text that is being written
        self._left_out = 0  # lines
        self._error: OSError | None = None
        self._waited_in_vain = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<a patient stream, {self._size} characters wait, {self._left_out} lines left out>"

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only in Python's classes too
        """The encoding of the stream."""
        return self._encoding

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._is_terminal

    def fileno(self) -> int:
        """The descriptor of the stream."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Queue the text. The thread writes it as soon as the reader lets it."""
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
        """Do nothing: the thread never holds text back."""

    def settle(self, seconds: float = END_SECONDS) -> int:
        """Wait until all text is written, at most `seconds`. Returns the number of lines that were
        not read."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._error or not (self._size or self._left_out), seconds
            )
            self._waited_in_vain = not done
            self._raise()
            return self._left_out + sum(text.count("\n") for text in self._texts)

    def settle_at_exit(self) -> None:
        """The same at the exit of the process, when no error can be reported any more. Does not
        wait if an earlier wait was in vain."""
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
                        f"... {self._left_out} lines are not shown: they were not read in time\n"
                    )
                    self._size = self._size + len(self._texts[0])
                    self._left_out = 0
                text = self._texts[0]  # stays queued until it is written, since `settle` counts it
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
        """Write straight to the descriptor. Writing to the stream would hold its lock for as long
        as its reader does not read."""
        while data:
            data = data[os.write(self._descriptor, data) :]

"""The standard streams of a command: they are open, and they show any text.

A shell can start a command with a stream closed (`>&-`). The next file or socket would then get its
number, and be written to by mistake. A terminal or a pipe can have an encoding that lacks a
character of the output (`PYTHONIOENCODING=latin-1`, a locale that is not UTF-8).
`python -m runtime` imports this module first, so it imports only modules that load quickly.
"""

from __future__ import annotations

import io
import os
import sys

STREAMS = ("stdin", "stdout", "stderr")  # by their descriptors


def open_missing() -> None:
    """Open the null device in the place of each standard stream that is closed."""
    for descriptor, name in enumerate(STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            # the lowest free number, since the numbers below it are in use
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:  # Python has found the stream closed
            mode = "w" if descriptor else "r"
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def show_any_text(encoding: str | None = None) -> None:
    """Write characters that the encoding of stdout or stderr lacks as their escapes: \\u0434. With
    `encoding`, the streams change to it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not the stand-in of a test or of a notebook
            stream.reconfigure(encoding=encoding, errors="backslashreplace")

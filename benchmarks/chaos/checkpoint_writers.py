"""Checkpoint writers to be killed at any instant: forked on order, each writes one file after the
other."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.helpers.report import ROOT
from benchmarks.helpers.survivor import environment
from nets.files import checkpoint

PIECE = 1 << 15  # bytes; half a megabyte in 16 pieces
NUMBERS = 1 << 17

# forks a writer at each line of its standard input, which says its pid and every file that is
# whole; tells its end
NURSERY = f"""
import os, sys
from pathlib import Path
from nets.files import checkpoint
from benchmarks.chaos.checkpoint_writers import arrays_of
checkpoint.PIECE = {PIECE}
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        for number in range(int(line), int(line) + 1000):
            checkpoint.save(Path(sys.argv[1]), arrays_of(number), {{"iteration": str(number)}})
            os.write(1, b"%d\\n" % number)
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"ended\\n")
"""


def arrays_of(number: int) -> dict[str, np.ndarray]:
    """What the checkpoint of this number holds."""
    return {"w": np.full(NUMBERS, number, np.float32), "b": np.arange(3.0) + number}


def loaded(path: Path) -> int:
    """The number of a checkpoint, whose content fits it."""
    arrays, facts = checkpoint.load(path)
    number = int(facts["iteration"])
    for name, expected in arrays_of(number).items():
        assert (arrays[name] == expected).all(), name
    return number


class Nursery:
    """The process that forks writers of `path`, one at a time."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(path)],
            cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._orders = self.process.stdin
        self._said = self.process.stdout
        self._buffer = b""
        self.whole = 0  # the last file that its writers said to be

    def __repr__(self) -> str:
        return f"<nursery of writers, file {self.whole} is whole>"

    def start(self, number: int) -> int:
        """A writer of this number and those that follow; its pid."""
        self._orders.write(b"%d\n" % number)
        self._orders.flush()
        return int(next(line for line in self._lines() if line.startswith("pid ")).split()[1])

    def kill(self, pid: int, after: float) -> None:
        """Kill it at that instant and hear what it still had said."""
        begin = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._said, selectors.EVENT_READ)
            while (left := begin + after - time.monotonic()) > 0:
                if selector.select(left):
                    self._read()
        os.kill(pid, signal.SIGKILL)
        assert "ended" in self._lines()

    def close(self) -> None:
        """End it."""
        self._orders.close()
        self._said.close()
        self.process.wait()

    def _lines(self) -> Iterator[str]:
        while True:
            while b"\n" not in self._buffer:
                self._read()
            line, _, self._buffer = self._buffer.partition(b"\n")
            text = line.decode()
            self.whole = max(self.whole, int(text)) if text.isdigit() else self.whole
            yield text

    def _read(self) -> None:
        data = os.read(self._said.fileno(), 4096)
        assert data
        self._buffer += data

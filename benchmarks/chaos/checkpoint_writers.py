"""Checkpoint writers that may be killed at any instant. Each is forked on order, and writes one
file after the other."""

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

# forks a writer at each line of its standard input. It prints the writer's pid, the number of every
# file that is whole, and the writer's end
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
    """The arrays of the checkpoint with this number."""
    return {"w": np.full(NUMBERS, number, np.float32), "b": np.arange(3.0) + number}


def loaded(path: Path) -> int:
    """Load a checkpoint and check its arrays. Returns its number."""
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
        self.whole = 0  # the last file that its writers reported as whole

    def __repr__(self) -> str:
        return f"<nursery of writers, file {self.whole} is whole>"

    def start(self, number: int) -> int:
        """Start a writer, which counts up from this number. Returns its pid."""
        self._orders.write(b"%d\n" % number)
        self._orders.flush()
        return int(next(line for line in self._lines() if line.startswith("pid ")).split()[1])

    def kill(self, pid: int, after: float) -> None:
        """Kill a writer after so many seconds, and read the lines that it still wrote."""
        begin = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._said, selectors.EVENT_READ)
            while (left := begin + after - time.monotonic()) > 0:
                if selector.select(left):
                    self._read()
        os.kill(pid, signal.SIGKILL)
        assert "ended" in self._lines()

    def close(self) -> None:
        """End the nursery."""
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

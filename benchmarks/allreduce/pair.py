"""`python -m benchmarks.allreduce --against CHECKOUT`: the sums of this tree compared with those of
another commit.

The members of both trees are alive at once and take turns, sum by sum, each pinned to a core. A sum
lasts from the moment when the first member asks for it until the last one has it. The first sums do
not count: they touch pages for the first time. Ratios of one pair of commits went from 0.95 to 1.09
from life to life of the processes (measured once, 2026-11-25). So both sides are restarted a few
times, and the result is the median of these ratios.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import TextIO

from benchmarks.allreduce.turns import SOCKET
from benchmarks.helpers.report import ROOT, Record, commit_of

BAR = 1.03  # our longest time, relative to the other's
WARM = 5  # sums of a life that do not count
LIMIT = 60.0  # seconds until all members have connected, and of a sum


class Side:
    """The members of one checkout, each in its own process."""

    def __init__(self, tree: Path, members: int, numbers: int) -> None:
        self._tree = tree
        self._members = members
        self._numbers = numbers
        self._ends: list[tuple[socket.socket, TextIO]] = []

    def __enter__(self) -> Side:
        self._folder = tempfile.TemporaryDirectory(prefix="convoy-benchmark-")
        folder = Path(self._folder.name)
        shutil.copy(Path(__file__).with_name("turns.py"), folder)
        lines = [
            'program = "turns"',
            f"members = {self._members}",
            f"numbers = {self._numbers}",
            "[[machine]]",
            "threads = 1",
        ]
        (folder / "cluster.toml").write_text("\n".join(lines) + "\n")
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, "PYTHONPATH": str(self._tree), **one}
        with socket.socket(socket.AF_UNIX) as door, (folder / "said").open("w") as said:
            door.bind(str(folder / SOCKET))
            door.listen(self._members)
            command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
            self._run = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=said, stderr=said
            )
            try:
                self._accept(door)
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def _accept(self, door: socket.socket) -> None:
        """Wait until all members have connected. Raises SystemExit with the run's output if the run
        ends instead."""
        door.settimeout(0.5)
        until = time.monotonic() + LIMIT
        while len(self._ends) < self._members:
            try:
                end, _ = door.accept()
            except TimeoutError:
                if self._run.poll() is not None or time.monotonic() > until:
                    said = Path(self._folder.name, "said").read_text()
                    raise SystemExit(
                        f"the members of {self._tree} did not connect:\n{said}"
                    ) from None
            else:
                end.settimeout(LIMIT)
                self._ends.append((end, end.makefile()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for end, words in self._ends:
            words.close()
            end.close()
        try:
            self._run.wait(LIMIT if self._ends else 0.0)
        except subprocess.TimeoutExpired:
            self._run.terminate()
            self._run.wait()
        self._folder.cleanup()

    def sum(self, order: str = "") -> tuple[float, set[str]]:
        """The seconds of one sum. With an `order`, also the digests of the members' sums."""
        for end, _ in self._ends:
            end.sendall(f"{order}\n".encode())
        answers = [json.loads(words.readline()) for _, words in self._ends]
        began, ended, digests = zip(*answers, strict=True)
        return (max(ended) - min(began)) / 1e9, set(digests)


def compare(
    record: Record, other: Path, shapes: list[tuple[int, int]], lives: int, sums: int
) -> None:
    """Record a row for each (members, megabytes): `sums` of each side in each of its `lives`."""
    before = f"commit {commit_of(other)}"
    headers = (
        "processes",
        "MB",
        before,
        "this tree",
        f"of {before}",
        "least of a life",
        "most of a life",
        "sums",
    )
    record.table(f"Milliseconds of a sum beside {before}, in turns", *headers)
    for members, megabytes in shapes:
        numbers = megabytes * 1_000_000 // 4
        taken = [
            _life(other, members, numbers, sums, turned=bool(life % 2)) for life in range(lives)
        ]
        theirs, ours = (
            median(seconds for life in taken for seconds in life[side]) * 1e3 for side in (0, 1)
        )
        ratios = [median(now / then for then, now in zip(*life, strict=True)) for life in taken]
        record.row(
            members, megabytes, theirs, ours, median(ratios), min(ratios), max(ratios), lives * sums
        )
        if median(ratios) > BAR:
            record.fail(
                f"{median(ratios):.3f} of {before}'s time, at most {BAR}: {members} "
                f"processes, {megabytes} MB"
            )


def _life(
    other: Path, members: int, numbers: int, sums: int, *, turned: bool
) -> tuple[list[float], list[float]]:
    """The seconds of the sums of the other checkout and of this one, both of which start here.
    `turned`: this one starts first."""
    theirs: list[float] = []
    ours: list[float] = []
    trees = ((other, theirs), (ROOT, ours))
    with ExitStack() as up:
        sides = [
            (up.enter_context(Side(tree, members, numbers)), taken)
            for tree, taken in trees[:: -1 if turned else 1]
        ]
        for number in range(WARM + sums):
            for side, taken in sides:
                seconds, _ = side.sum()
                if number >= WARM:
                    taken.append(seconds)
        digests = set().union(*(side.sum("digest")[1] for side, _ in sides))
    if len(digests) != 1:
        raise SystemExit(f"{len(digests)} different sums: {members} processes, {numbers} numbers")
    return theirs, ours

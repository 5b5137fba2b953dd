"""Code that the parts of `benchmarks.chaos` share: a run to harm, and a row of results for each
sort of harm."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.helpers.report import Record
from benchmarks.helpers.survivor import Gone, Survivor, events

NAMED_WITHIN = 3.0  # seconds that are promised on one machine
BACK_WITHIN = 10.0
HEADERS = (
    "harm",
    "n",
    "happened",
    "failures",
    "named p50",
    "named p95",
    "named max",
    "on p50",
    "on p95",
    "on max",
)
SOLVER = """net: "lenet.prototxt" base_lr: 0.001 momentum: 0.9 lr_policy: "fixed" weight_decay: 0.0005
max_iter: 100000000 display: 1 snapshot: 0
"""
CLUSTER = """
{more}
[recovery]
restarts = {restarts}
window_seconds = 100000.0
backoff_seconds = 0.1
machines = "{machines}"
[checkpoint]
seconds = 1.0
keep = 2
[train]
solver = "solver.prototxt"
batch = {batch}
[train.data]
train = {{ format = "synthetic", shape = [1, 28, 28], size = 512 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
reproducible = {reproducible}
{strategy}
"""
USUAL = {
    "batch": 16, "workers": 2, "strategy": "",
    "reproducible": "true", "restarts": 1_000_000, "machines": "all", "more": "",
}  # fmt: skip
ERROR = r"(?!warning)\S"  # a line on stderr that is not a warning


class Absent(Exception):  # not an error, so without that suffix
    """This machine lacks something that a part needs; the text names it."""


@dataclass
class Harm:
    """One sort of harm: how often it was done, how often it was seen to have happened, the
    failures, and the seconds until it was named and until the next iteration."""

    name: str
    done: int = 0
    happened: int = 0
    failures: list[str] = field(default_factory=list)
    named: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, parts: Iterable[Harm]) -> Harm:
        """The sum of all parts, under one name."""
        whole = cls(name)
        for part in parts:
            whole.done += part.done
            whole.happened += part.happened
            whole.failures += part.failures
            whole.named += part.named
            whole.back += part.back
        return whole

    @property
    def row(self) -> list[object]:
        """The cells of its row, in the order of HEADERS."""
        return [
            self.name,
            self.done,
            self.happened,
            len(self.failures),
            *(spread(self.named) or "---"),
            *(spread(self.back) or "---"),
        ]


class Trials:
    """The trials of one part: its record, its folder, and its random numbers."""

    def __init__(self, record: Record, folder: Path, seed: str) -> None:
        self.record = record
        self.folder = folder
        self.chance = random.Random(seed)
        self._count = 0

    @contextmanager
    def run(
        self,
        preset: str = "sync",
        *,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        solver: str = SOLVER,
        first: str = "progress ",
        **said: object,
    ) -> Iterator[Survivor]:
        """A run that has printed a line with `first`; it is ended in any case. `said`: values that
        replace those in USUAL."""
        self._count += 1
        folder = folder or self.folder / str(self._count)
        folder.mkdir(exist_ok=True)
        (folder / "solver.prototxt").write_text(solver)
        (folder / "cluster.toml").write_text(CLUSTER.format(preset=preset, **{**USUAL, **said}))
        run = Survivor(folder / "cluster.toml", env)
        try:
            run.until(first)
            yield run
        finally:
            run.stop()

    @contextmanager
    def counted(self, harm: Harm) -> Iterator[None]:
        """Count one trial of this harm. An error is a failure of this trial; the next trial goes
        on."""
        harm.done += 1
        try:
            yield
        except (Gone, AssertionError, OSError) as error:
            harm.failures.append(
                f"{harm.name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            )

    @contextmanager
    def alike(self, other: Harm, harm: Harm) -> Iterator[None]:
        """Count this trial of `harm` in `other` too, which groups the same trials in another
        way."""
        had = (harm.happened, len(harm.named), len(harm.back))
        other.done += 1
        try:
            yield
        except BaseException as error:
            other.failures.append(repr(error))
            raise
        finally:
            other.happened += harm.happened - had[0]
            other.named += harm.named[had[1] :]
            other.back += harm.back[had[2] :]

    def told(self, *harms: Harm, named: float = NAMED_WITHIN, back: float = BACK_WITHIN) -> None:
        """Record a row for each harm. One that was slower than promised, or did not happen, fails
        the part."""
        for harm in harms:
            self.record.row(*harm.row)
            for failure in harm.failures:
                self.record.fail(failure)
            if harm.happened != harm.done:
                self.record.fail(
                    f"{harm.name}: done {harm.done} times, but it happened {harm.happened} times"
                )
            if harm.named and max(harm.named) > named:
                self.record.fail(
                    f"{harm.name}: named after {max(harm.named):.1f} s, "
                    f"expected {named:g} s at most"
                )
            if harm.back and (late := spread(harm.back)[1]) > back:
                self.record.fail(
                    f"{harm.name}: went on after {late:.1f} s (p95), expected {back:g} s at most"
                )

    def pause(self, least: float, most: float) -> None:
        """Sleep for a time that is drawn between `least` and `most` seconds."""
        time.sleep(self.chance.uniform(least, most))


def named_and_back(run: Survivor, harm: Harm, since: float, *, pattern: str = ERROR) -> str:
    """Wait until the harm is named and the next run has trained an iteration. Returns the line that
    names it."""
    at, line = run.named(pattern, since=since)
    harm.named.append(at - since)
    run.until("restart ")
    harm.back.append(run.at("progress ") - since)
    return line


def trained_twice(run: Survivor) -> list[str]:
    """Iterations that were trained again after a restart, with another loss than the first time."""
    losses: dict[str, set[float]] = {}
    for directory in run.directories:
        for event in events(directory, "progress"):
            losses.setdefault(event["iteration"], set()).add(event["loss"])
    return [
        (f"iteration {iteration}: {sorted(found)}")
        for iteration, found in losses.items()
        if len(found) > 1
    ]


def spread(found: Sequence[float]) -> list[float]:
    """The median, the 95th percentile and the maximum; empty if `found` is empty."""
    ordered = sorted(found)
    return [
        ordered[max(0, math.ceil(share * len(ordered)) - 1)]
        for share in (0.5, 0.95, 1.0)
        if ordered
    ]

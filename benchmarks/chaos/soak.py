"""A run that loses a process every half minute, for an hour or a day: does it leak, or slow down?

A run's pace is set by its layer (`paced`), not by the machine, so other work on the machine hardly
matters. Just before each kill, every process is measured: resident memory, the part of it that
belongs to no file, descriptors, threads. A role's process lives for half a minute; `up` lives from
the first to the last.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median

from benchmarks.chaos.paced import PACED, brought
from benchmarks.chaos.processes import KINDS, WORKERS, kill, nursery_of
from benchmarks.chaos.trials import Harm, Trials, named_and_back, trained_twice
from benchmarks.helpers.survivor import Survivor, events

PACE = 0.2  # seconds of each of the four micro-batches of a worker's rows
EVERY = 30.0  # seconds from a kill to the next
WARM = 5  # minutes that slopes leave out, at most a tenth of the run
SPAN = 10  # minutes of each rate, at most a third of the run
MEGABYTES_PER_HOUR = 1.0
AS_FAST = 0.98
MEASURES = ("MB", "MB without files", "descriptors", "threads")


@dataclass(frozen=True)
class Sample:
    """Measurements at one moment: minutes since the start, MEASURES of each process, the number of
    files in the newest run directory, the number of socket folders."""

    minutes: float
    of: dict[str, tuple[float, float, int, int]]
    files: int
    folders: int


def soak(trials: Trials, minutes: int) -> None:
    """Kill one process of each kind in turn, every half minute."""
    folder = trials.folder / "soak"
    folder.mkdir()
    harm = Harm(f"SIGKILL every {EVERY:g} s")
    env = brought(folder, PACE)
    samples: list[Sample] = []
    with trials.run(workers=WORKERS, folder=folder, env=env, solver=PACED) as run:
        began = time.monotonic()
        unix = time.time()
        while (turn := len(samples) + 1) * EVERY <= minutes * 60.0:
            time.sleep(max(0.0, began + turn * EVERY - time.monotonic()))
            samples.append(taken(run, (time.monotonic() - began) / 60.0))
            print(json.dumps(vars(samples[-1])), flush=True)
            with trials.counted(harm):
                kind = KINDS[turn % len(KINDS)]
                named_and_back(
                    run, harm, kill(nursery_of(run) if kind == "nursery" else run.pid(kind), harm)
                )
            if run.process.poll() is not None:
                break
        harm.failures += [f"another loss after a restart: {text}" for text in trained_twice(run)]
        paces = iterations(run.directories, unix)
    trials.told(harm)
    told(trials, samples, paces, minutes)


def taken(run: Survivor, minutes: float) -> Sample:
    """Measure every process of the run."""
    pids = {"up": run.process.pid, "nursery": nursery_of(run), **run.pids()}
    return Sample(
        round(minutes, 3),
        {name: measured(pid) for name, pid in pids.items()},
        sum(path.is_file() for path in run.newest.rglob("*")),
        len(list(Path(tempfile.gettempdir()).glob(f"convoy-sockets-{run.process.pid}-*"))),
    )


def measured(pid: int) -> tuple[float, float, int, int]:
    """The process's resident memory in MB, the part of it without pages of files, its descriptors,
    its threads."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resident, own = (round(int(status[name].split()[0]) / 1024, 3) for name in ("VmRSS", "RssAnon"))
    return resident, own, descriptors, int(status["Threads"])


def iterations(directories: list[Path], unix: float) -> list[tuple[float, float]]:
    """(minutes since `unix`, seconds since the previous iteration of the same run) of every
    iteration except each run's first."""
    found = []
    for directory in directories:
        ends = [event["unix_seconds"] for event in events(directory, "progress")]
        found += [((end - unix) / 60.0, end - before) for before, end in pairwise(ends)]
    return found


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line through the points, by Theil and Sen: the median of the slopes through
    any two of them. A dip, as when the system takes back pages of libraries, does not change
    it."""
    found = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in combinations(points, 2) if x1 != x0]
    return median(found) if found else 0.0


def told(
    trials: Trials, samples: list[Sample], paces: list[tuple[float, float]], minutes: float
) -> None:
    """Record tables of growth and of speed. A value that grew too much, or a run that became
    slower, fails the part."""
    record = trials.record
    warm = min(WARM, minutes / 10)
    span = min(SPAN, minutes / 3)
    record.facts |= {"minutes": minutes, "seconds of a micro-batch": PACE, "samples": len(samples)}
    record.facts["files of a run directory, first and last"] = [samples[0].files, samples[-1].files]
    record.facts["folders of sockets, most"] = max(sample.folders for sample in samples)
    late = [sample for sample in samples if sample.minutes >= warm]
    headers = [f"{measure} {what}" for measure in MEASURES for what in ("first", "last", "an hour")]
    record.table(
        (f"What processes have just before a kill, after {warm:g} minutes"), "process", *headers
    )
    for name in samples[0].of:
        cells: list[object] = []
        for at, measure in enumerate(MEASURES):
            points = [
                (sample.minutes / 60.0, float(sample.of[name][at]))
                for sample in late
                if name in sample.of
            ]
            growth = slope(points)
            cells += [points[0][1], points[-1][1], growth]
            if growth > MEGABYTES_PER_HOUR:
                record.fail(
                    f"{name}: {growth:.2f} {measure} more in an hour, expected "
                    f"{MEGABYTES_PER_HOUR:g} at most"
                )
        record.row(name, *cells)
    record.table(
        ("How fast it was, without the time of restarts"),
        "minutes",
        "iterations",
        "a second",
        "median s",
    )
    rates = []
    for begin in range(round(minutes / span)):
        took = [seconds for at, seconds in paces if begin * span <= at < (begin + 1) * span]
        if took:
            rates.append(len(took) / sum(took))
            record.row(
                (f"{begin * span:g} to {(begin + 1) * span:g}"), len(took), rates[-1], median(took)
            )
    record.facts["the last rate by the first"] = round(rates[-1] / rates[0], 4)
    if rates[-1] < AS_FAST * rates[0]:
        record.fail(
            f"{rates[-1] / rates[0]:.1%} as fast at the end as in the beginning, "
            f"expected {AS_FAST:.0%}"
        )

"""`python -m benchmarks.operators --trials 300`: operators' commands, typed at any moment during
deaths, clock jumps, and in other namespaces. Is each answer true?

A trial starts one or two real `up` in one folder of runs, and draws the steps that follow.
Processes are killed and stopped, runs cannot begin, the clock jumps by an hour, another host falls
silent. The commands are ps, status, events, report, save, scale, down and up --resume. They are
typed here, in another time zone, PID, mount or UTS namespace, on another host (which shares the
folder, but no lock, socket or boot), without a HOME, or with 256 descriptors. The truth is what the
driver itself has started, killed and waited for; `truth` judges each answer by it. At the end
nothing may be left.

`--seed N` is the seed of the first trial. `--only N` plays one trial and shows every answer.
`--mutants` breaks the product in a copy of the tree, one promise after the other, and checks that a
trial notices. Namespaces need root, and stepped clocks need a C compiler. Without these, everything
is typed here, and a note says so. An `up` has its own PID namespace only where no other `up` shares
its TMPDIR.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.operators.draw import Place, Trial, draw
from benchmarks.operators.trial import Told, played
from benchmarks.operators.world import Refused, World, clock_library, namespaces

SEED = 20261128
JOBS = 3


@dataclass(frozen=True)
class Means:
    """The abilities of this machine. `clock`: the library that moves clocks, or None. `namespaces`:
    whether this user may have namespaces. `missing`: the reasons for what is missing."""

    folder: Path
    clock: Path | None
    namespaces: bool
    missing: tuple[str, ...] = ()

    @classmethod
    def here(cls, folder: Path) -> Means:
        """Find the abilities of this machine."""
        clock = None
        missing = []
        spaces = True
        try:
            clock = clock_library(folder)
        except Refused as why:
            missing.append(str(why))
        try:
            namespaces()
        except Refused as why:
            missing.append(str(why))
            spaces = False
        return cls(folder, clock, spaces, tuple(missing))

    def trial(self, seed: int) -> Trial:
        """The trial of this seed, as far as this machine can play it."""
        found = draw(seed)
        starts = tuple(replace(start, place=self._place(start.place)) for start in found.starts)
        steps = [replace(step, place=self._place(step.place)) for step in found.steps]
        return replace(
            found,
            starts=starts,
            steps=tuple(step for step in steps if step.kind != "clock" or self.clock is not None),
        )

    def _place(self, place: Place) -> Place:
        if not self.namespaces:
            return Place(zone=place.zone, home=place.home, descriptors=place.descriptors)
        if self.clock is None and place.far:
            return replace(place, far=False)
        return place

    def play(self, trial: Trial, tree: Path = ROOT) -> Told:
        """Play a trial in a new folder."""
        folder = Path(tempfile.mkdtemp(prefix=f"{trial.seed % 1000}-", dir=self.folder))
        return played(trial, World(folder, self.clock, tree))


def main(arguments: list[str] | None = None) -> int:
    """Play the trials. Returns 1 if an answer was wrong, or if no trial noticed a mutant."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operators", description="Operators' commands during faults."
    )
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument(
        "--only", type=int, help=("play the trial of this seed, and show its answers")
    )
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cvo-", ignore_cleanup_errors=True) as folder:
        means = Means.here(Path(folder))
        if said.only is not None:
            return shown(means, said.only)
        if said.mutants:
            from benchmarks.operators.mutants import mutants

            records = {"mutants": mutants(means)}
        else:
            records = {
                f"trials from {said.seed}": trials(
                    means, range(said.seed, said.seed + said.trials), said.jobs
                )
            }
    for path in write(said.results, "operators", machine(), records):
        print(path)
    return 1 if any(record.status == "failed" for record in records.values()) else 0


def shown(means: Means, seed: int) -> int:
    """Play one trial and print its steps, answers and mistakes."""
    trial = means.trial(seed)
    for start in trial.starts:
        print(f"up {start.name} [{start.place}] workers {start.workers} backoff {start.backoff}")
    print(*(f"  {step}" for step in trial.steps), sep="\n")
    told = means.play(trial)
    for answer in told.answers:
        print(answer)
    print(*(f"WRONG {text}" for text in told.wrong), f"{told.seconds:.1f} s", sep="\n")
    return 1 if told.wrong else 0


def trials(means: Means, seeds: Iterable[int], jobs: int = JOBS) -> Record:
    """Play a trial of each seed, `jobs` at a time, and record the results."""
    seeds = list(seeds)
    since = time.monotonic()
    record = Record(
        "Commands of operators beside faults", facts={"first seed": seeds[0], "trials": len(seeds)}
    )
    for missing in means.missing:
        record.note(f"skipped: {missing}")
    found = []
    for told in in_parallel(lambda seed: means.play(means.trial(seed)), seeds, jobs):
        found.append(told)
        for text in told.wrong:
            record.fail(f"seed {told.trial.seed}: {text}".replace(str(means.folder), ""))
    commands = _sum(told.commands for told in found)
    faults = _sum(told.faults for told in found)
    record.facts |= {
        "trials with a wrong answer": sum(bool(told.wrong) for told in found),
        "commands": sum(commands.values()),
        "faults": sum(faults.values()),
        "seconds": round(time.monotonic() - since),
        "seconds of a trial, median": round(
            sorted(told.seconds for told in found)[len(found) // 2], 1
        ),
    }
    record.table("Commands, by how they ended", "command", "exit code", "n")
    for name, count in sorted(commands.items()):
        command, _, code = name.partition(": ")
        record.row(command, code, count)
    record.table("Faults that happened", "fault", "n")
    for name, count in sorted(faults.items()):
        record.row(name, count)
    record.table("Where commands and `up` were typed", "place", "n")
    for name, count in sorted(_places(told.trial for told in found).items()):
        record.row(name, count)
    if record.status == "running":
        record.status = "passed"
    return record


def in_parallel(play: Callable[[int], Told], seeds: Iterable[int], jobs: int) -> Iterator[Told]:
    """Play a trial of each seed; yields the results in the order of the seeds."""
    with ThreadPoolExecutor(jobs) as pool:
        for told in pool.map(play, seeds):
            mark = "WRONG" if told.wrong else "right"
            print(f"  {told.trial.seed} {mark} {told.seconds:.1f} s", flush=True)
            yield told


def _places(played: Iterable[Trial]) -> Counter[str]:
    found = Counter[str]()
    for trial in played:
        for each in (*trial.starts, *trial.steps):
            found.update(str(each.place).split(", "))
    return found


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    found = Counter[str]()
    for counter in counters:
        found.update(counter)
    return found

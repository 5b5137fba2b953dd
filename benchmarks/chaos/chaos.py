"""`python -m benchmarks.chaos --size pr|nightly|release`: runs that are harmed on
purpose. Was the harm named, did the run go on, and in how many seconds? A run that hangs, a harm
that is not named, and a harm that did not happen are failures.

    killed    SIGKILL in each of ten presets             paused    SIGSTOP, shorter and longer than the limit
    points    SIGKILL before, in, after a send, in work  loop      a process that dies at each start
    double    two deaths within two seconds              orphans   SIGKILL of `up` itself
    slow      a worker 2, 5 and 10 times slower          storms    32 roles that start and end
    unequal   a group ten times slower                   scrapes   metrics that are read while processes die
    disk      full, and full again; writers killed       clock     the wall clock an hour ahead, and back
    links     cables cut, slow and long; resets          soak      a SIGKILL every half minute: does anything grow?
    loss      a machine with half of the workers and all servers, compared with torchelastic

The moments are drawn from `--seed`. `links` needs root and network namespaces, `disk` a mount.
Without these the part is skipped, with a note. Nightly takes three hours on two cores; the soak is
one of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos import kills, links, loss, machines, points, processes, scrapes, soak, starts
from benchmarks.chaos.trials import HEADERS, Absent, Trials
from benchmarks.helpers.report import ROOT, Record, machine, write

SIZES = ("pr", "nightly", "release")
SEED = 20261124


@dataclass(frozen=True)
class Part:
    """A sort of harm, the function that does it, and how many times it is done at each size."""

    title: str
    do: Callable[[Trials, int], None]
    times: tuple[int, int, int]


PARTS = {
    "killed": Part("Processes of every preset are killed", kills.killed, (2, 30, 120)),
    "points": Part(("Processes die at chosen points of their work"), points.points, (1, 15, 50)),
    "double": Part("Two deaths within two seconds", processes.double, (2, 100, 300)),
    "paused": Part("A process is stopped for a while", processes.paused, (1, 30, 60)),
    "slow": Part("A worker is slower than its peers", processes.slow, (1, 3, 10)),
    "unequal": Part("A group is slower than its peers", processes.unequal, (1, 3, 10)),
    "loop": Part("A process dies at each start", processes.loop, (1, 5, 20)),
    "orphans": Part("`up` itself is killed", starts.orphans, (3, 100, 1000)),
    "storms": Part("32 roles start and end", starts.storms, (3, 100, 1000)),
    "scrapes": Part("Metrics are read while processes die", scrapes.scrapes, (3, 60, 400)),
    "disk": Part("Disks that are full, writers that are killed", machines.disk, (1, 10, 50)),
    "clock": Part("The wall clock jumps", machines.clock, (1, 10, 50)),
    "links": Part("Links between machines", links.links, (1, 10, 60)),
    "loss": Part("A machine is lost, beside torchelastic", loss.loss, (1, 3, 10)),
    "soak": Part("A death every half minute", soak.soak, (3, 60, 1440)),  # minutes
}


def main(arguments: list[str] | None = None) -> int:
    """Do the parts that are asked for. Returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos", description="Runs that are harmed on purpose."
    )
    parser.add_argument("--size", choices=SIZES, default="pr")
    parser.add_argument("--only", default=",".join(PARTS), help="part names, separated by commas")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    said = parser.parse_args(arguments)
    wanted = said.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(
            f"--only: there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}"
        )
    records = {name: run(name, said.size, said.seed) for name in wanted}
    for path in write(said.results, f"chaos-{said.size}", machine(), records):
        print(path)
    return 1 if any(record.status == "failed" for record in records.values()) else 0


def run(name: str, size: str, seed: int) -> Record:
    """Do one part. Returns its record."""
    part = PARTS[name]
    record = Record(part.title, facts={"seed": seed})
    print(f"{name}: {part.title}", flush=True)
    record.table("Seconds from the harm to its name and to the next iteration", *HEADERS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="convoy-chaos-", ignore_cleanup_errors=True) as folder:
        try:
            part.do(Trials(record, Path(folder), f"{name} {seed}"), part.times[SIZES.index(size)])
        except Absent as why:
            record.status = "skipped"
            record.note(f"skipped: {why}")
        except Exception as error:  # the record has the error; the other parts go on
            traceback.print_exc()
            record.fail(
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
    record.facts["seconds"] = round(time.monotonic() - began)
    if record.status == "running":
        record.status = "passed"
    return record

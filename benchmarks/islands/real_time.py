"""Islands in real time: emulated machines in network namespaces, next to the same run on the virtual
clock.

Four machines of speeds 1 : 1 : 2 : 4 have cables of 20 Mbit/s on which each frame waits 20 ms
(`benchmarks.helpers.cables`). The coordinator and the outer server are on the fastest machine, whose
cable has no delay. Messages are those of LeNet in int4, and no gradient is computed. If the
processor has no idle time, a pace that is off the virtual clock shows the load, and is not judged. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.helpers.cables import delayed
from benchmarks.helpers.machines import Machine, Refused, machines, rate_limit
from benchmarks.helpers.report import ROOT, Record
from benchmarks.islands.homes import BYTES, NUMBERS, emulated_cluster, emulated_network
from benchmarks.islands.runs import BATCH
from benchmarks.scaling.runs import MACHINE, PROCESS, TCP, Processor, Wanted, real
from roles import ROLES
from roles.forecasting.island_periods import IslandMachine
from runtime.runs.checking import check
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate

SECONDS = (0.05, 0.1, 0.2, 0.2)  # of a batch of 32 images on each machine
RATE = 20_000_000  # bits per second
DELAY = 0.02  # seconds
BURST = 0.002  # seconds of the rate that may leave at once
ITERATIONS = 1600
PORT = 29_517
DDP = 20  # iterations of DDP
PATIENCE = 300.0  # seconds
BUSY = 0.9  # of all cores, above which nothing is judged
NEAR = 0.15


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--real-iterations", type=int, default=ITERATIONS, help="(real)")
    parser.add_argument("--ddp", type=Path, help="a Python with PyTorch; else without DDP (real)")


def measured(given: argparse.Namespace) -> Record:
    """The record of one cluster on both clocks."""
    record = Record("Islands in real time over network namespaces, next to the virtual clock")
    record.facts |= {
        "machines": "1 : 1 : 2 : 4, 20 Mbit/s, 20 ms, LeNet, int4, emulated",
        "iterations": given.real_iterations,
        "command": "python -m benchmarks.islands --parts real --ddp PYTHON",
    }
    record.table("pace", "run", "samples a second", "processor busy")
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        virtual = _virtual(given.real_iterations, Path(folder, "virtual"))
        record.row("virtual", virtual, "")
        processor = Processor()
        try:
            found = _real(given.real_iterations, Path(folder, "real"))
        except Refused as why:
            record.status = "skipped"
            record.note(f"no machines here: {why}")
            return record
        busy = processor.busy()
    record.row("real", found, busy)
    if given.ddp is not None:
        processor = Processor()
        record.row("real, PyTorch's DDP", _ddp(given.ddp), processor.busy())
    off = abs(found / virtual - 1)
    if busy < BUSY or off <= NEAR:  # load makes it worse only
        record.judge("samples a second, off the virtual clock", off, most=NEAR)
    else:
        record.note("not judged: the processor had no time left")
    record.status = "passed" if record.status == "running" else record.status
    return record


def _home() -> list[IslandMachine]:
    return [
        IslandMachine(f"m{rank}", (seconds,), BYTES, BYTES, DELAY if rank else 0.0, RATE / 8)
        for rank, seconds in enumerate(SECONDS)
    ]


def _pace(times: Sequence[float], batch: int) -> float:
    """Samples in a second, over the later half of the iterations."""
    later = times[len(times) // 2 :]
    return batch * (len(later) - 1) / (later[-1] - later[0])


def _virtual(iterations: int, folder: Path) -> float:
    wanted = emulated_cluster(_home(), iterations)
    placement = check(wanted.write(folder)).placement
    network = emulated_network(_home())
    journal = run_virtual(simulate(placement, ROLES, network=network, directory=folder))
    times = [at for at, _, event, _ in journal.entries if event == "progress"]
    return _pace(times, wanted.batch)


@contextmanager
def _apart() -> Iterator[list[Machine]]:
    """The machines, each a namespace with its cable."""
    with machines(len(SECONDS), RATE, BURST) as made, ExitStack() as cables:
        for machine in made[1:]:
            limit = rate_limit(RATE, BURST)
            cables.enter_context(delayed(machine, DELAY, DELAY, limit=limit))
        yield made


def _ddp(python: Path) -> float:
    """Samples in a second of PyTorch's DDP, which sums the gradients of a batch of BATCH rows in
    each iteration. Each machine has as many rows."""
    rows = BATCH // len(SECONDS)
    with _apart() as made, ExitStack() as ends:
        peers = []
        for rank, (machine, seconds) in enumerate(zip(made, SECONDS, strict=True)):
            words = map(str, (rank, len(made), made[0].address, PORT, seconds * rows / BATCH))
            command = [*machine.before, "env", "GLOO_SOCKET_IFNAME=eth0", str(python)]
            command += ["-m", "benchmarks.islands.ddp_peer", *words, str(DDP), str(NUMBERS)]
            peers.append(ends.enter_context(_process(command)))
        said, _ = peers[0].communicate(timeout=PATIENCE)
    return BATCH / float(said)


@contextmanager
def _process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.wait(PATIENCE)
        finally:
            process.kill()


def _real(iterations: int, folder: Path) -> float:
    wanted = emulated_cluster(_home(), iterations)
    with _apart() as made:
        events = real(_on(wanted, made, folder))
    times = [event["t"] for event in events if event["event"] == "progress"]
    return _pace(times, wanted.batch)


def _on(wanted: Wanted, made: Sequence[Machine], folder: Path) -> Path:
    """Write the cluster.toml with each island on its machine, and the servers on the first."""
    more = TCP + "[checkpoint]\nseconds = 0\n"
    more += "".join(MACHINE.format(name=f"m{n}", at=at) for n, at in enumerate(made))
    placed = replace(wanted, more=more)
    for spec in check(placed.write(folder)).placement.processes:
        rank = int(spec.name.rpartition("-")[2]) if spec.name.startswith("island-") else 0
        placed.more += PROCESS.format(
            name=spec.name, machine=f"m{rank}", actors=json.dumps(spec.actors)
        )
    return placed.write(folder)

"""`python -m benchmarks.second_user`: the cost to a run of another user on the same machine, who
tries one door after the other without a pause. Needs two cores and root, which can act as another
user.

The run trains over TCP on one core and the other user has another core. So the result is the time
that the run itself spends on strangers, and not the processor time that any program of another user
takes. For each door, calm and attacked seconds take turns, and the ratio is the median of the
ratios of the turns.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Any

import roles
import runtime
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from benchmarks.helpers.strangers import listening
from runtime import Event
from runtime.runs.run import Run

BAR = 1.05  # times the seconds of an iteration of a run that is not attacked
WARM = 50  # iterations
NOBODY = 65534
SOLVER = """net: "lenet.prototxt" base_lr: 0.001 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
max_iter: 10000000 display: 1 snapshot: 0 snapshot_after_train: false
"""
# Everything is imported first, since another user may not be able to read this user's Python.
PREAMBLE = f"""
import encodings.idna, os, random, socket, sys, time; sys.path.insert(0, {str(ROOT)!r})
from contextlib import suppress
from pathlib import Path
import zmq
from runtime.messages import wire
from runtime.messages.message import Envelope, WindDown
*ports, name, folder, runs, pages = sys.argv[1:]
pages = [int(page) for page in pages.split()]
junk = b"\\xff" + bytes(8) + b"\\x7f" + os.urandom(30 << 20)  # once: making it would cost more than the run's sockets
old = b"\\xff" + bytes(9) + junk[10:]  # greets as ZeroMQ 2, without authentication: it is refused at its tenth byte
junk, old = memoryview(junk), memoryview(old)
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
"""
# Each prints what it obtained from the run; nothing, if the run is safe.
FORGED = """
context, dealers = zmq.Context(), []
for user, secret in ((None, None), (b"convoy", b"a wrong secret")):
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.setsockopt(zmq.SNDTIMEO, 0)  # a socket that is refused first has no peer, and would wait for ever
    dealer.setsockopt(zmq.ROUTING_ID, name.encode())
    if user:
        dealer.setsockopt(zmq.PLAIN_USERNAME, user)
        dealer.setsockopt(zmq.PLAIN_PASSWORD, secret)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    said = Envelope(WindDown(reason="forged"), 1 << 40, "supervisor", 1, "coordinator")
    dealers.append(dealer)
    with suppress(zmq.Again):
        dealer.send_multipart(wire.encode(said))
time.sleep(0.5)  # for the handshake
for dealer in dealers:
    if dealer.poll(0):
        print("answered", dealer.recv_multipart())
    dealer.close()
context.term()
"""
GARBAGE = """
for size in (10, 1000, 1 << 20, 30 << 20):
    with socket.create_connection(("127.0.0.1", int(port))) as door:
        door.settimeout(1)
        heard = b""
        try:
            door.sendall(junk[:size])
            while said := door.recv(1 << 16):
                heard += said
        except OSError:
            pass
        if len(heard) > 64:  # ZeroMQ greets every client with so many bytes
            print("said", heard)
"""
OLD = GARBAGE.replace("junk", "old")
IDLE = """
doors = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(200)]
time.sleep(0.3)
"""
METRICS = """
doors = []
for _ in range(10):
    while doors:
        doors.pop().close()
    for page in pages * 20:
        door = socket.socket()
        door.setblocking(False)
        door.connect_ex(("127.0.0.1", page))  # whether anything listens or not
        doors.append(door)
    time.sleep(0.02)
with socket.socket() as door:
    try:
        door.settimeout(0.6)
        door.connect(("127.0.0.1", random.choice(pages)))
        door.sendall(f"GET /{random.choice(['metrics', 'sd', ''])} HTTP/1.1\\r\\n\\r\\n".encode())
        said = door.recv(1 << 16)
    except OSError:  # too many at the door
        said = b""
    if said and not said.startswith(b"HTTP/1.1 403 "):
        print("read", said[:40])
while doors:
    doors.pop().close()
"""
FILES = """
for path in (Path(folder), Path(runs)):
    names = ("plan.json", "coordinator.keys", "events.jsonl", "supervisor.control")
    for each in (path, *(path / name for name in names)):
        try:
            print("read", os.listdir(each) if each == path else each.read_bytes()[:10])
        except OSError:
            pass
"""
UNIX = """
door = socket.socket(socket.AF_UNIX)
try:
    door.connect(f"{folder}/supervisor.control")
    print("connected")
except OSError:
    pass
"""
ATTACKS = {
    "forged": FORGED,
    "garbage": GARBAGE,
    "old": OLD,
    "idle": IDLE,
    "metrics": METRICS,
    "files": FILES,
    "unix": UNIX,
}

# At a door that closes at once, a stranger can try ten thousand times a second. ZeroMQ's own thread
# spends 20 us on each try, which we cannot limit. So such a door is tried TRIES times in a turn,
# and a further row reports the cost without a pause.
TRIES = 10
SHUT = ("old",)
# Each line of input has the seconds to try and the most tries; the answer is the number of tries.
TURNS = """
for line in sys.stdin:
    seconds, most = map(float, line.split())
    until, tries = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        if tries >= most:
            time.sleep(max(0.0, until - time.monotonic()))
            break
        port = ports[tries % len(ports)]
        tries += 1
{attack}
    print("tried", tries, flush=True)
"""


def main(arguments: list[str] | None = None) -> int:
    """Measure every door. Returns 1 if a bar is missed."""
    parser = parser_of("second_user", __doc__)
    parser.add_argument("--doors", nargs="+", choices=tuple(ATTACKS), default=list(ATTACKS))
    parser.add_argument(
        "--turns", type=int, default=9, help="turns of each door, calm and attacked"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each half of a turn")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    record = Record("A run over TCP while another user tries its doors")
    cores = sorted(os.sched_getaffinity(0))
    if os.geteuid() or len(cores) < 2:
        print("skipped: needs root and two cores")
        return 0
    found = machine()
    os.sched_setaffinity(0, cores[:1])
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        Path(folder).chmod(0o755)  # the run closes its own folders
        solver = Path(folder, "solver.prototxt")
        solver.write_text(SOLVER)
        asyncio.run(measure(record, solver, given, cores[1]))
    record.status = "passed" if record.status == "running" else record.status
    print("results:", *write(given.results, "second-user", found, {"doors": record}))
    return int(record.status == "failed")


async def measure(record: Record, solver: Path, given: argparse.Namespace, core: int) -> None:
    """Train one run in the solver's folder, and attack it from this core."""
    record.table(
        "Milliseconds of an iteration", "door", "calm", "attacked", "ratio", "tries a second"
    )
    data = {"train": {"format": "digits", "split": "train"}}
    strategy = {"preset": "sync", "workers": 2}
    topology = roles.training(
        {"solver": str(solver), "batch": 64, "data": data, "strategy": strategy}
    )
    links = {"transport": "tcp"}
    machines = [{"threads": 1}]
    async with runtime.launch(
        topology, directory=solver.parent, links=links, machine=machines
    ) as run:
        watched = Watched(run)
        following = asyncio.create_task(watched.follow())
        while watched.iterations < WARM:
            await watched.next()
        for name in given.doors:
            most = TRIES if name in SHUT else math.inf
            ratio = await door(record, name, watched, given, core, most)
            if ratio > BAR:
                record.fail(
                    f"{name}: {ratio:.3f} times the seconds of a calm iteration, at most {BAR:g}"
                )
            if name in SHUT:
                await door(record, name, watched, given, core, math.inf)
        await run.end_now()
        await following


async def door(
    record: Record, name: str, watched: Watched, given: argparse.Namespace, core: int, most: float
) -> float:
    """Record a door's row: calm and attacked seconds in turn, with at most `most` tries in each.
    Returns the ratio of the two."""
    program = PREAMBLE + TURNS.replace("{attack}", indent(ATTACKS[name], " " * 8))
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *watched.doors(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=partial(os.sched_setaffinity, 0, {core}),
    )
    assert other.stdin is not None
    assert other.stdout is not None

    async def tried(seconds: float) -> list[str]:
        other.stdin.write(f"{seconds} {most}\n".encode())
        return (await other.stdout.readline()).decode().split()

    await tried(0)  # waits until it has imported everything
    calm = []
    attacked = []
    tries = 0
    for _ in range(given.turns):
        calm.append((await watched.pace(asyncio.sleep(given.seconds)))[0])
        pace, said = await watched.pace(tried(given.seconds))
        attacked.append(pace)
        if said[:1] != ["tried"]:
            record.fail(f"{name}: got {' '.join(said) or 'an error'}")
            break
        tries += int(said[1])
    other.stdin.close()
    await other.wait()
    ratio = median(there / here for there, here in zip(attacked, calm, strict=True))
    title = f"{name}, without a pause" if name in SHUT and most > TRIES else name
    record.row(
        title,
        1000 * median(calm),
        1000 * median(attacked),
        ratio,
        tries / given.turns / given.seconds,
    )
    return ratio


class Watched:
    """A run whose progress is followed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.iterations = 0
        self._time = 0.0
        self.processes: list[Event] = []  # that have begun
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<{self.iterations} iterations of {self._run!r}>"

    async def follow(self) -> None:
        """Follow the run's events until it ends."""
        async for event in self._run.events():
            if event.name == "process":
                self.processes.append(event)
            elif event.name == "progress":
                self.iterations = int(event["iteration"])
                self._time = event.time
                self._news.set()

    async def next(self) -> tuple[int, float]:
        """Wait until the next iteration has ended. Returns the number of iterations, and the
        time."""
        self._news.clear()
        await self._news.wait()
        return self.iterations, self._time

    async def pace(self, beside: Awaitable[Any]) -> tuple[float, Any]:
        """The seconds of an iteration while `beside` runs, and the result of `beside`."""
        before, began = await self.next()
        result = await beside
        after, ended = await self.next()
        return (ended - began) / (after - before), result

    def doors(self) -> list[str]:
        """The arguments of PREAMBLE: the ports of the coordinator and the model server, a name,
        folders, the ports of metrics pages."""
        (sockets,) = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{os.getpid()}-*")
        pages = {event["metrics_port"] for event in self.processes}
        pids = [
            event["pid"]
            for event in self.processes
            if event["process"] in ("coordinator", "conv_model")
        ]
        ports = map(str, sorted(listening(pids) - pages))
        return [
            *ports,
            "conv-0-0/1.7",
            str(sockets),
            str(self._run.directory),
            " ".join(map(str, pages)),
        ]


if __name__ == "__main__":
    sys.exit(main())

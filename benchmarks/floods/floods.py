"""The cost of many strangers: the memory and descriptors that a process spends on connections that
never prove an identity.

claims     100 connections begin a handshake, claim a frame of 31 MiB and send it but for its last byte
crowds     6000 connections begin a handshake and send 256 KiB of a frame

`python -m benchmarks.floods` measures both, twice each, over plain and encrypted TCP. With
`--against CHECKOUT` it measures instead how long a thousand true peers need to join (`joining`),
compared with another commit. With a scheme, tcp or curve, it is the process that listens for
`Listening`.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from runtime.machine import descriptors
from runtime.memory import freed
from runtime.transport import Limits
from runtime.transport.keys import Keys
from runtime.transport.sockets import SocketTransport
from runtime.transport.zeromq import key_pair

MIB = 1 << 20
GROWTH = 32  # MiB and descriptors that strangers may cost a process at most
MORE = 64
CLAIMS = (100, 31 * MIB)  # connections, bytes of each
CROWDS = (6000, 256 << 10)
JOIN_MOST = 1.1  # times the seconds of another commit
SECONDS = 4.0  # of an attack: a process drops connections that are silent for 5 s
MECHANISMS = {"tcp": b"PLAIN", "curve": b"CURVE"}
_CHUNK = bytes(256 << 10)


def greeting(mechanism: bytes) -> bytes:
    """The greeting of a client of ZMTP 3.1."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


def flood(
    port: int, mechanism: bytes, connections: int, size: int, seconds: float = SECONDS
) -> int:
    """Open that many connections to a port of this machine. Each claims a frame of `size` bytes and
    sends all but the last byte. Holds them until `seconds` are over. Returns the number of
    connections that were begun."""
    waiting = selectors.DefaultSelector()
    until = time.monotonic() + seconds
    began = 0
    # a command, with eight bytes of length
    head = greeting(mechanism) + b"\x06" + size.to_bytes(8, "big")
    try:
        while time.monotonic() < until:
            for _ in range(min(100, connections - began)):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
                waiting.register(each, selectors.EVENT_WRITE, [head, size - 1])
                began += 1
            for key, _ in waiting.select(0.05):
                _go_on(waiting, key)
            if not any(key.events & selectors.EVENT_WRITE for key in waiting.get_map().values()):
                time.sleep(0.05)
    finally:
        for key in list(waiting.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        waiting.close()
    return began


def _go_on(waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Send as much as one socket takes."""
    connected = key.fileobj
    rest = key.data
    assert isinstance(connected, socket.socket)
    with suppress(BlockingIOError):
        try:
            if rest[0]:
                rest[0] = rest[0][connected.send(rest[0]) :]
            else:
                rest[1] -= connected.send(_CHUNK[: rest[1]])
        except OSError:  # it was turned away
            rest[:] = [b"", 0]
        if not rest[0] and not rest[1]:
            waiting.modify(connected, selectors.EVENT_READ, rest)


@dataclass
class Cost:
    """The most that a process had in addition to before: MiB of memory, descriptors."""

    mib: float
    descriptors: int


def resident(pid: int) -> float:
    """MiB of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def opened(pid: int) -> int:
    """Descriptors of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def watched(pid: int) -> Iterator[Cost]:
    """The cost to a process while the block runs."""
    before = (resident(pid), opened(pid))
    cost = Cost(0.0, 0)
    over = threading.Event()

    def look() -> None:
        while True:
            last = over.is_set()
            cost.mib = max(cost.mib, resident(pid) - before[0])
            cost.descriptors = max(cost.descriptors, opened(pid) - before[1])
            if last:
                return
            over.wait(0.01)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield cost
    finally:
        over.set()
        looking.join()


class Listening:
    """A process that listens on both lanes, over plain or encrypted TCP, and does nothing else."""

    def __init__(self, scheme: str) -> None:
        self.mechanism = MECHANISMS[scheme]
        command = [sys.executable, "-m", "benchmarks.floods", scheme]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.ports = [int(word) for word in self._process.stdout.readline().split()]

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its standard input

    def attacked(self, connections: int, size: int, seconds: float = SECONDS) -> Cost:
        """The cost of a flood to this process."""
        with watched(self.pid) as cost:
            each = connections // len(self.ports)
            threads = [
                threading.Thread(target=flood, args=(port, self.mechanism, each, size, seconds))
                for port in self.ports
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return cost


async def _listen(scheme: str) -> None:
    """Listen until standard input ends."""
    keys = Keys("a secret") if scheme == "tcp" else Keys("", *key_pair(), {"p": key_pair()[0]})
    descriptors.more()
    freed.keep()
    road = SocketTransport(
        "q", lambda *_: None, lambda *_: None, Limits(), incarnation=1, keys=keys,
        bind=lambda lane: (f"{scheme}://127.0.0.1:*",),
    )  # fmt: skip
    there = await road.open()
    print(
        *(address.rpartition(":")[2] for lane in (there.control, there.bulk) for address in lane),
        flush=True,
    )
    await asyncio.to_thread(sys.stdin.read)
    await road.close()


def attacks(record: Record) -> None:
    """Run both attacks on each scheme, twice: the second one must not add to the cost."""
    descriptors.more()
    record.table("What strangers cost a process", "scheme", "attack", "time", "MiB", "descriptors")
    for scheme in MECHANISMS:
        for name, (connections, size) in (("claims", CLAIMS), ("crowds", CROWDS)):
            with Listening(scheme) as listening:
                for time_ in ("first", "second"):
                    cost = listening.attacked(connections, size)
                    record.row(scheme, name, time_, cost.mib, cost.descriptors)
                    record.judge(f"MiB of {name} on {scheme}", cost.mib, most=GROWTH)
                    record.judge(f"descriptors of {name} on {scheme}", cost.descriptors, most=MORE)


def join(record: Record, other: Path, rounds: int) -> None:
    """Let a thousand true peers join a process of this tree and one of another tree, in turns."""
    record.table(
        ("Seconds until a thousand peers have joined"), "scheme", other.name, "this tree", "ratio"
    )
    for scheme in MECHANISMS:
        taken: dict[Path, list[float]] = {other: [], ROOT: []}
        for turn in range(rounds):
            for tree in list(taken)[:: 1 if turn % 2 else -1]:
                taken[tree].append(_joined(tree, scheme))
        then = taken[other]
        now = taken[ROOT]
        ratio = median(after / before for before, after in zip(then, now, strict=True))
        record.row(scheme, median(then), median(now), ratio)
        record.judge(
            f"a thousand peers on {scheme}, ratio to the other tree", ratio, most=JOIN_MOST
        )


def _joined(tree: Path, scheme: str) -> float:
    command = [sys.executable, str(Path(__file__).with_name("joining.py")), scheme]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Measure, or listen. Returns 1 if a bar is missed."""
    parser = parser_of("floods", __doc__)
    parser.add_argument(
        "scheme", nargs="?", choices=sorted(MECHANISMS), help="listen, and do nothing else"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help=("another commit's tree, for the true peers"),
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns of each tree")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    said = parser.parse_args(arguments)
    if said.scheme:
        asyncio.run(_listen(said.scheme))
        return 0
    if said.against is None:
        record = Record("Strangers in numbers")
        attacks(record)
        records = {"strangers": record}
    else:
        record = Record("A thousand true peers")
        join(record, said.against.resolve(), said.rounds)
        records = {"peers": record}
    if record.status == "running":
        record.status = "passed"
    for path in write(said.results, "floods", machine(), records):
        print(path)
    return int(record.status == "failed")

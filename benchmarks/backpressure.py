"""`python -m benchmarks.backpressure`: a consumer ten times slower than its producer, with messages
of 50 MB.

The producer makes arrays as fast as it may. The consumer reads each one, then rests ten times as
long as making one took. The command reports the producer's largest memory (its pages of shared
memory count) and its bound: the memory with one message made and none sent, plus the window of byte
credits, plus 10 % of the window. It also checks that every message arrived, once and in order. Each
road has its own run, in its own processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, write
from runtime import Actor, ActorSpec, Array, Envelope, Message, Topology, message

ROADS = {"shared memory": ("ipc", True), "ipc": ("ipc", False), "tcp": ("tcp", False)}
MB = 1_000_000
MARGIN = 0.1  # of the window
CLUSTER = """
program = "benchmarks.backpressure"
megabytes = {megabytes}
messages = {messages}
seconds = {seconds}
slower = {slower}
[run]
directory = {directory}
[links]
transport = "{transport}"
shared_memory = {shared}
credit_bytes = {window}
"""


class Options(BaseModel):
    """This program's keys of cluster.toml."""

    megabytes: int
    messages: int  # at most
    seconds: float  # at most
    slower: float


@message
class Bulk(Message):
    """One array, and the seconds that its reader rests."""

    number: int
    rest: float
    blob: Array


@message
class Count(Message):
    """Asks how many arrays arrived."""

    blob: Array  # empty: on the bulk lane it arrives after all others


@message
class Counted(Message):
    """The number of arrays that arrived in order, and that of arrays out of order or repeated."""

    messages: int
    wrong: int


class Consumer(Actor):
    """Reads arrays and rests after each."""

    def __init__(self) -> None:
        self._count = self._wrong = 0

    async def on_bulk(self, said: Bulk, envelope: Envelope) -> None:
        self._wrong += (
            said.number != self._count or not (said.blob[::4096] == said.number % 251).all()
        )
        self._count += 1
        await asyncio.sleep(said.rest)

    async def on_count(self, said: Count, envelope: Envelope) -> None:
        await self.reply(envelope, Counted(messages=self._count, wrong=self._wrong))


class Producer(Actor):
    """Makes arrays and sends them as fast as it may. The run ends with this actor."""

    def __init__(self, *, megabytes: int, messages: int, seconds: float, slower: float) -> None:
        self._size = megabytes * MB
        self._messages = messages
        self._seconds = seconds
        self._slower = slower

    async def run(self) -> None:
        took = []
        for _ in range(3):  # the fastest counts: the first writes to pages that do not exist yet
            blob = None
            began = self.now()
            blob = await self.compute("make", self._make, 0)
            took.append(self.now() - began)
        rest = min(took) * self._slower
        base = _peak()
        number = 0
        began = self.now()
        while number < self._messages and self.now() - began < self._seconds:
            await self.tell("consumer", Bulk(number=number, rest=rest, blob=blob))
            number += 1
            del blob  # only the reader holds it now
            blob = await self.compute("make", self._make, number)
        came = await self.ask("consumer", Count(blob=np.empty(0)), Counted)
        seconds = self.now() - began
        self.emit(
            "measured",
            sent=number,
            came=came.messages,
            wrong=came.wrong,
            base=base,
            peak=_peak(),
            rest=rest,
            took=seconds,
        )

    def _make(self, number: int) -> Array:
        blob = self.memory(self._size)
        blob.fill(number % 251)
        return blob


def _peak() -> int:
    """The largest resident memory of this process in bytes, shared pages included."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


ROLES = {"producer": Producer, "consumer": Consumer}


def plan(config: object, options: Options) -> Topology:
    """One producer and one consumer, each in its own process."""
    actors = (
        ActorSpec("producer", "producer", options.model_dump()),
        ActorSpec("consumer", "consumer"),
    )
    return Topology(__name__, actors, (("producer", "consumer"),), "producer")


def main(arguments: list[str] | None = None) -> int:
    """Run each road and write the results. Returns 1 if a bound was passed or a message was
    lost."""
    parser = parser_of("backpressure", __doc__)
    parser.add_argument("--roads", nargs="+", choices=ROADS, default=["shared memory", "tcp"])
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest time of each road")
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="the most messages of each road"
    )
    parser.add_argument("--megabytes", type=int, default=50, help="size of each message")
    parser.add_argument("--window", type=int, default=256 << 20, help="the window of byte credits")
    parser.add_argument(
        "--slower",
        type=float,
        default=10.0,
        help="the consumer's rest, in times of making one array",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    record = Record(
        "Backpressure", facts={"window, MB": given.window / MB, "message, MB": given.megabytes}
    )
    record.table(
        "The producer's memory, MB",
        "road",
        "seconds",
        "sent",
        "came",
        "wrong",
        "base",
        "peak",
        "bound",
        "GB/s",
    )
    for road in given.roads:
        measure(road, given, record)
    if record.status == "running":
        record.status = "passed"
    print("results:", *write(given.results, "backpressure", machine(), {"all": record}))
    return int(record.status != "passed")


def measure(road: str, given: argparse.Namespace, record: Record) -> None:
    """Run one road and record a row of the table."""
    transport, shared = ROADS[road]
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        cluster = Path(folder, "cluster.toml")
        cluster.write_text(
            CLUSTER.format(
                megabytes=given.megabytes,
                messages=given.messages,
                seconds=given.seconds,
                slower=given.slower,
                directory=json.dumps(folder),
                transport=transport,
                shared=str(shared).lower(),
                window=given.window,
            )
        )
        command = [sys.executable, "-m", "runtime", "up", str(cluster)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        journals = list(Path(folder).glob("*/events.jsonl"))
        events = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    found = next((event for event in events if event["event"] == "measured"), None)
    if found is None:
        record.fail(f"{road}: the run ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return
    bound = found["base"] + given.window * (1 + MARGIN)
    speed = found["sent"] * given.megabytes / 1000 / found["took"]
    numbers = [found[name] / MB for name in ("base", "peak")]
    record.row(
        road,
        found["took"],
        found["sent"],
        found["came"],
        found["wrong"],
        *numbers,
        bound / MB,
        speed,
    )
    if found["peak"] > bound:
        record.fail(
            f"{road}: the producer's memory passed its bound by "
            f"{(found['peak'] - bound) / MB:.0f} MB"
        )
    if found["came"] != found["sent"] or found["wrong"]:
        record.fail(f"{road}: {found['sent']} sent, {found['came']} came, {found['wrong']} wrong")


if __name__ == "__main__":
    sys.exit(main())

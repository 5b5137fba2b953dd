"""Processes killed or stopped while a run starts: the process is named, the run ends by itself, and
nothing is left behind.

Each case starts `up`, waits a random part of the first three seconds, picks a role process or the
nursery, and sends it SIGKILL or SIGSTOP. A plain run has the first case, `-m slow` 20. The release
figure is 200:

    CONVOY_STARTS=200 python -m pytest tests/chaos/test_startup.py -m "slow or not slow" -n 3 --dist
    load

CONVOY_SEED chooses other moments and victims (1 by default).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers.support import configure, environment, runtime_command

STARTS = int(os.environ.get("CONVOY_STARTS", "12"))
QUICK = 1
SEED = int(os.environ.get("CONVOY_SEED", "1"))
MOMENTS = 3.0  # seconds after the start of `up` within which the signal is sent
START_SECONDS = 8.0
NAMED_WITHIN = START_SECONDS + 6.0
GONE_WITHIN = 5.0
PAUSE = 0.005  # seconds between two looks: the starting processes need the cores
NURSERY = "nursery"

# Four actors that talk from their first moment on, so that several of them notice a death.
TALKING = """
import asyncio, time
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message

@message
class Ping(Message):
    pass

@message
class Pong(Message):
    pass

class Talker(Actor):
    def __init__(self, peers):
        self._peers = peers

    async def on_start(self):
        await self.compute("prepare", time.sleep, 0.2)

    async def on_ping(self, message: Ping, envelope: Envelope) -> None:
        await self.reply(envelope, Pong())

    async def run(self):
        while True:
            for peer in self._peers:
                await self.ask(peer, Ping(), Pong)
            await asyncio.sleep(0.01)

ROLES = {"talker": Talker}

def plan(config, options):
    names = ["anna", "bert", "carl", "dora"]
    specs = tuple(ActorSpec(name, "talker", {"peers": [peer for peer in names if peer != name]}) for name in names)
    return Topology(__name__, specs, tuple((a, b) for a in names for b in names if a < b), "anna")
"""


def talking(directory: Path) -> Path:
    """Write the cluster.toml of four actors that talk."""
    (directory / "talking.py").write_text(TALKING)
    cluster = directory / "cluster.toml"
    cluster.write_text(f'program = "talking"\n[liveness]\nstart_seconds = {START_SECONDS}\n')
    return cluster


def training(directory: Path) -> Path:
    """Write the cluster.toml of a training run."""
    return configure(
        directory,
        "sync",
        iterations=100_000,
        more=(f"[liveness]\nstart_seconds = {START_SECONDS}\n"),
    )


def children(pid: int) -> list[int]:
    """The processes that `pid` has started from any of its threads."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Start:
    """A run that starts. `seen` maps the pid of each process seen so far to its name."""

    cluster: Path
    seen: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = self.cluster.parent / "stdout", self.cluster.parent / "stderr"
        self.began = time.monotonic()
        with self.files[0].open("w") as out, self.files[1].open("w") as err:
            self.process = subprocess.Popen(
                runtime_command("up", self.cluster.name),
                cwd=self.cluster.parent, env=environment(), stdout=out, stderr=err,
            )  # fmt: skip

    def look(self) -> dict[str, int]:
        """The pid of the nursery and of each role process that exists now, by name."""
        found: dict[str, int] = {}
        for nursery in children(self.process.pid):
            try:  # until it takes this name it is a copy of `up`
                if Path(f"/proc/{nursery}/comm").read_text() != f"{NURSERY}\n":
                    continue
            except OSError:
                continue
            found[NURSERY] = nursery
            for pid in children(nursery):
                try:
                    log = Path(f"/proc/{pid}/fd/1").readlink()
                except OSError:
                    continue
                if log.parent.name == "logs":  # otherwise it was only just forked
                    found[log.stem] = pid
        self.seen.update({pid: name for name, pid in found.items()})
        return found

    def hit(self, moment: float, number: signal.Signals, draw: random.Random) -> str:
        """Send the signal at `moment` seconds, or when the first process exists; return the
        victim's name.
        """
        while time.monotonic() < self.began + moment or not self.look():
            assert not self.ended(PAUSE)
        there = self.look()
        victim = draw.choice(sorted(there))
        os.kill(there[victim], number)
        return victim

    def said(self, file: int) -> str:
        """The text on stdout (0) or stderr (1) so far."""
        return self.files[file].read_text()

    def wait_until_it_starts_processes(self) -> None:
        """Wait for the line that names the run directory; deadlines count from it. Before that line,
        `up` reads and imports, which takes long on a busy machine.
        """
        while "run directory" not in self.said(0) and not self.ended(PAUSE):
            pass

    def ended(self, within: float) -> bool:
        """Return whether `up` ends within so many seconds."""
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def left(self) -> list[str]:
        """The processes and sockets that are left. Orphans end by themselves, so this waits
        GONE_WITHIN seconds.
        """
        deadline = time.monotonic() + GONE_WITHIN
        while any(map(alive, self.seen)) and time.monotonic() < deadline:
            pass
        sockets = Path(tempfile.gettempdir()).glob(f"convoy-sockets-{self.process.pid}-*")
        return [name for pid, name in self.seen.items() if alive(pid)] + list(map(str, sockets))

    def close(self) -> None:
        self.look()
        for pid in [self.process.pid, *self.seen]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def started() -> Iterator[list[Start]]:
    runs: list[Start] = []
    yield runs
    for run in runs:
        run.close()


def case(number: int) -> tuple[bool, float, signal.Signals, random.Random]:
    """Draw a case: whether it is a training run, the moment, the signal, and the generator that
    draws the victim.
    """
    draw = random.Random(SEED * 100_000 + number)
    return (
        number % 5 == 4,
        draw.uniform(0, MOMENTS),
        draw.choice([signal.SIGKILL, signal.SIGSTOP]),
        draw,
    )


CASES = [pytest.param(n, marks=[pytest.mark.slow] if n >= QUICK else []) for n in range(STARTS)]


@pytest.mark.parametrize("number", CASES)
def test_a_process_killed_or_stopped_while_a_run_starts_is_named(
    tmp_path: Path, started: list[Start], number: int
) -> None:
    trains, moment, sent, draw = case(number)
    run = Start((training if trains else talking)(tmp_path))
    started.append(run)
    victim = run.hit(moment, sent, draw)
    run.wait_until_it_starts_processes()
    harmless = victim == NURSERY and sent == signal.SIGSTOP  # if all processes were forked already
    if not run.ended(NAMED_WITHIN):
        assert harmless, f"{victim} {sent.name} at {moment:.2f}: hangs\n{run.said(0)}{run.said(1)}"
        run.look()
        run.process.send_signal(signal.SIGINT)
        assert run.ended(GONE_WITHIN), "Ctrl-C has no effect while the nursery is stopped"
    told = run.said(1)
    code = run.process.returncode
    assert "Traceback" not in told, told
    assert run.left() == []
    if code == 130 and harmless:  # with all processes forked, the nursery is not needed
        assert re.search(r"^(began|progress)", run.said(0), re.MULTILINE)
    elif victim == NURSERY:
        assert code in (3, 4)
        stopped = r"the process that role processes are forked from \(pid \d+\) is stopped"
        killed = "its nursery ended|is lost: the process it was forked from was killed"
        assert re.search(killed if sent == signal.SIGKILL else stopped, told), told
    else:
        assert code == 4, told
        assert re.match(rf"process {victim} \(.*\) on local", told), told
        why = (
            "killed by SIGKILL"
            if sent == signal.SIGKILL
            else ("did not report within|sent no heartbeat")
        )
        assert re.search(why, told.splitlines()[0]), told

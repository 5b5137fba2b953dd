"""Readers and writers killed in the middle of transfers over shared memory: the survivor loses and
keeps nothing.

CONVOY_TRANSFERS sets how many lives of each kind are killed (200 by default).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import count, takewhile
from pathlib import Path

import pytest
import pytest_asyncio

from runtime.errors import ActorStopped, MessageError
from runtime.memory.arena import Arena
from runtime.memory.mapping import available
from runtime.messages.message import Envelope, Message
from runtime.transport import Endpoints, Release
from tests.chaos.peers import HOLDS, LIMITS, intact, road, write
from tests.helpers.support import ROOT, environment

pytestmark = pytest.mark.skipif(not available(), reason="this system has no memory files")
LIVES = int(os.environ.get("CONVOY_TRANSFERS", "200"))
# one array of each life that is never returned would be 200 to 600 MB
GROWTH = 2 * LIMITS.credit_bytes


class Survivor:
    """The process that outlives its peers: it writes to them, or keeps the last few messages that
    they write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arena = Arena("survivor")
        self.kept: deque[Message] = deque(maxlen=HOLDS)
        self.reasons: set[str] = set()
        self.arrived = 0
        self.pid = 0
        self.told = 0
        self.road = road("survivor", 1, folder, self.arena, self._deliver, self._reject)

    async def open(self) -> None:
        """Listen, and start the process that peers are forked from."""
        ends = await self.road.open()
        self._orders, theirs = socket.socketpair()
        command = [sys.executable, "-c", "from tests.chaos.peers import main; main()"]
        self._nursery = subprocess.Popen(  # noqa: ASYNC220
            [*command, str(self.folder), json.dumps(asdict(ends))],
            stdin=theirs, cwd=ROOT, env=environment(),
        )  # fmt: skip
        theirs.close()
        self._news = self._orders.makefile()

    def bear(self, name: str) -> None:
        """Start a peer and link it, in place of the one before."""
        lifeline, self._lifeline = os.pipe()
        said, log = os.pipe()
        socket.send_fds(self._orders, [json.dumps({"process": name}).encode()], [lifeline, log])
        os.close(lifeline)
        os.close(log)
        self.pid = json.loads(self._news.readline())["pid"]
        with open(said) as told:
            line = told.readline()
            if not line.startswith("{"):
                pytest.fail(line + told.read())
        self.road.connect("peer", Endpoints.of(json.loads(line)))

    def kill(self) -> None:
        """Kill the peer; return when it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        news = json.loads(self._news.readline())
        assert news == {"pid": self.pid, "status": -signal.SIGKILL}, "it had ended before"
        os.close(self._lifeline)

    async def close(self) -> None:
        """End the nursery, the road and the arena."""
        self._orders.close()
        self._news.close()
        self._nursery.wait()
        await self.road.close()
        self.arena.close()

    async def nothing_lent(self) -> None:
        """Wait until nobody holds anything in the arena."""
        async with asyncio.timeout(60):
            while self.arena.used:  # noqa: ASYNC110  # what comes back is no event here
                await asyncio.sleep(0)

    async def write_until_dead(self, mark: int, pid: int) -> None:
        """To one life of the peer, until it is killed; who waits for credits of the dead is
        told."""
        numbers = takewhile(lambda number: self.pid == pid, count())
        try:
            await write(self.road, self.arena, "peer", mark, numbers)
        except ActorStopped as error:
            assert "peer was restarted" in str(error)
            self.told += 1

    def _deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        assert intact(envelope.message)
        self.arrived += 1
        self.kept.append(envelope.message)
        release()

    def _reject(self, peer: str, error: MessageError) -> None:
        self.reasons.add(error.reason)


def resident() -> int:
    """Bytes of this process that are in memory, shared ones too."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mapped() -> int:
    """Arenas of peers that are mapped here: each keeps its memory file alive."""
    return sum(
        "memfd:convoy-cargo-" in line for line in Path("/proc/self/maps").read_text().splitlines()
    )


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest_asyncio.fixture
async def survivor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Survivor]:
    temporary = tmp_path / "temporary"
    sockets = tmp_path / "sockets"
    for folder in (temporary, sockets):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    gc.collect()  # what earlier tests left would be closed meanwhile
    before = descriptors()
    made = Survivor(sockets)
    await made.open()
    yield made
    await made.close()
    made.kept.clear()
    gc.collect()
    assert (descriptors(), mapped()) == (before, 0)
    assert not list(temporary.iterdir())
    # a killed process cannot remove its socket files: the next life takes them over, and `up`
    # removes their folder
    assert {path.name for path in sockets.iterdir()} <= {"peer.control", "peer.bulk"}


@pytest.mark.few("[12]")
@pytest.mark.parametrize("lives", [12, LIVES])
@pytest.mark.timeout(60)
async def test_killed_readers_leave_the_writer_with_all_its_memory_and_no_wait(
    survivor: Survivor, lives: int
) -> None:
    chance = random.Random(1)
    in_flight = 0
    warm = 0
    writing = None
    for life in range(1, lives + 1):
        survivor.bear(f"reader-{life}")
        if writing is not None:
            await writing
        await survivor.nothing_lent()
        writing = asyncio.create_task(survivor.write_until_dead(life % 251, survivor.pid))
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        in_flight += survivor.arena.used > 0
        survivor.kill()
        if life == lives // 10:  # from here on nothing may grow any more
            warm = resident()
    assert in_flight > lives // 2, "hardly any was killed during a transfer"
    assert survivor.told > lives // 2
    assert resident() - warm < GROWTH
    survivor.bear(f"reader-{lives + 1}")
    await writing
    # six windows: the last one reads to the end
    await write(survivor.road, survivor.arena, "peer", 7, range(100))
    survivor.kill()
    await survivor.nothing_lent()


@pytest.mark.few("[12]")
@pytest.mark.parametrize("lives", [12, LIVES])
@pytest.mark.timeout(60)
async def test_killed_writers_leave_readable_what_arrived_and_nothing_else(
    survivor: Survivor, lives: int
) -> None:
    chance = random.Random(2)
    warm = 0
    for life in range(1, lives + 1):
        survivor.bear(f"writer-{life}")
        wanted = survivor.arrived + chance.randrange(1, 12)
        async with asyncio.timeout(60):
            while survivor.arrived < wanted:  # noqa: ASYNC110  # chance comes in by turns
                await asyncio.sleep(0)
        survivor.kill()
        assert all(intact(message) for message in survivor.kept), (
            "the memory of the dead is not what it was"
        )
        assert mapped() <= 1 + HOLDS
        if life == lives // 10:  # from here on nothing may grow any more
            warm = resident()
    assert resident() - warm < GROWTH
    # what the dead had sent, read after their memory was let go
    assert survivor.reasons <= {"bad_shape"}
    assert survivor.arena.used == 0

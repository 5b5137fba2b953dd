"""Readers and writers killed in the middle of transfers over shared memory: the survivor loses no
message and leaks no memory.

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
# 200 to 600 MB would leak if one array of each life were never returned
GROWTH = 2 * LIMITS.credit_bytes


class Survivor:
    """The process that outlives its peers. It writes to them, or keeps the last few messages that
    they write.
    """

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
        """Listen, and start the process from which peers are forked."""
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
        """Start a peer and link it in place of the previous peer."""
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
        assert news == {"pid": self.pid, "status": -signal.SIGKILL}, (
            "the peer had ended before the kill"
        )
        os.close(self._lifeline)

    async def close(self) -> None:
        """End the nursery, the road and the arena."""
        self._orders.close()
        self._news.close()
        self._nursery.wait()
        await self.road.close()
        self.arena.close()

    async def nothing_lent(self) -> None:
        """Wait until no block of the arena is lent."""
        async with asyncio.timeout(60):
            while self.arena.used:  # noqa: ASYNC110  # a returned block raises no event here
                await asyncio.sleep(0)

    async def write_until_dead(self, mark: int, pid: int) -> None:
        """Write to one life of the peer until it is killed. A writer that waits for credits of a
        dead peer gets an ActorStopped.
        """
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
    """The bytes of this process that are in memory, shared memory included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mapped() -> int:
    """The number of peers' arenas that are mapped here. Each mapping keeps its memory file
    alive.
    """
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
    gc.collect()  # objects of earlier tests would otherwise be closed during this test
    before = descriptors()
    made = Survivor(sockets)
    await made.open()
    yield made
    await made.close()
    made.kept.clear()
    gc.collect()
    assert (descriptors(), mapped()) == (before, 0)
    assert not list(temporary.iterdir())
    # A killed process cannot remove its socket files. The next life takes them over, and `up`
    # removes their folder.
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
        if life == lives // 10:  # memory must not grow from here on
            warm = resident()
    assert in_flight > lives // 2, "too few readers were killed during a transfer"
    assert survivor.told > lives // 2
    assert resident() - warm < GROWTH
    survivor.bear(f"reader-{lives + 1}")
    await writing
    # six credit windows: the last peer reads all messages
    await write(survivor.road, survivor.arena, "peer", 7, range(100))
    survivor.kill()
    await survivor.nothing_lent()


@pytest.mark.few("[12]")
@pytest.mark.parametrize("lives", [12, LIVES])
@pytest.mark.timeout(60)
async def test_messages_of_killed_writers_stay_readable_and_no_memory_leaks(
    survivor: Survivor, lives: int
) -> None:
    chance = random.Random(2)
    warm = 0
    for life in range(1, lives + 1):
        survivor.bear(f"writer-{life}")
        wanted = survivor.arrived + chance.randrange(1, 12)
        async with asyncio.timeout(60):
            while survivor.arrived < wanted:  # noqa: ASYNC110  # the event loop must run to receive
                await asyncio.sleep(0)
        survivor.kill()
        assert all(intact(message) for message in survivor.kept), (
            "a message of a dead writer has changed"
        )
        assert mapped() <= 1 + HOLDS
        if life == lives // 10:  # memory must not grow from here on
            warm = resident()
    assert resident() - warm < GROWTH
    # messages of dead writers that were read after their memory was released
    assert survivor.reasons <= {"bad_shape"}
    assert survivor.arena.used == 0

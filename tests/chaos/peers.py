"""Processes that read from or write to a surviving process, until the test kills them.

A peer is forked from a nursery on an order of the survivor. It prints the endpoints at which it
listens on standard output. Then it reads or writes until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections import deque
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from runtime.cluster.launchers.nursery import Nursery
from runtime.errors import MessageError
from runtime.machine.loop import event_loop_factory
from runtime.memory.arena import Arena
from runtime.messages.message import Array, Envelope, Message, message
from runtime.transport import Deliver, Endpoints, Limits, Reject, Release
from runtime.transport.sockets import SocketTransport

LIMITS = Limits(credit_bytes=16 << 20)
HOLDS = 3  # messages that a reader keeps
SIZES = (2 << 20, 1 << 20, 3 << 20)  # bytes of the arrays; message n has the size n modulo 3


@message
class Cargo(Message):
    """An array in which every byte is `mark`."""

    mark: int
    number: int
    blob: Array


def road(
    name: str, life: int, folder: Path, arena: Arena, deliver: Deliver, reject: Reject
) -> SocketTransport:
    """The transport of one life of a process."""
    return SocketTransport(
        name,
        deliver,
        reject,
        LIMITS,
        incarnation=life,
        bind=lambda lane: (f"unix://{folder}/{name}.{lane}",),
        arena=arena,
    )


async def write(transport: SocketTransport, arena: Arena, to: str, mark: int, numbers: Any) -> None:
    """Send a new array for each number."""
    for number in numbers:
        blob = arena.empty((SIZES[number % len(SIZES)],), np.uint8)
        envelope = Envelope(Cargo(mark=mark, number=number, blob=blob), number + 1, "x", 1, "y")
        blob.fill(mark)
        await transport.send(to, envelope)


def intact(cargo: Message) -> bool:
    """Return whether every page of the array holds the mark that its sender wrote."""
    assert isinstance(cargo, Cargo)
    return bool((cargo.blob[::1024] == cargo.mark).all())


class Peer:
    """One life of a peer."""

    def __init__(self, life: int, folder: Path) -> None:
        self.life = life
        self.kept: deque[Message] = deque(maxlen=HOLDS)
        self.arena = Arena("cargo")
        self.road = road("peer", life, folder, self.arena, self.deliver, self.reject)

    def deliver(self, envelope: Envelope, size: int, release: Release) -> None:
        """Keep the last few messages; exit with code 3 if a message differs from what the sender
        wrote.
        """
        if not intact(envelope.message):
            os._exit(3)
        self.kept.append(envelope.message)
        release()

    def reject(self, peer: str, error: MessageError) -> None:
        """Exit with code 4: the survivor sends only valid messages."""
        os._exit(4)

    async def live(self, kind: str, survivor: Endpoints) -> None:
        """Read or write until the process is killed."""
        ends = await self.road.open()
        # the survivor has died: its end of the lifeline is closed
        asyncio.get_running_loop().add_reader(0, os._exit, 5)
        self.road.connect("survivor", survivor)
        print(json.dumps(asdict(ends)), flush=True)
        if kind == "writer":
            await write(self.road, self.arena, "survivor", self.life % 251, count())
        await asyncio.Event().wait()


def main() -> None:
    """Fork a peer for each order, and run the peer in the child.

    Arguments: the folder of the sockets and the survivor's addresses.
    """
    folder, survivor = sys.argv[1:]
    order = Nursery(socket.socket(fileno=os.dup(0))).serve()
    if order is not None:
        kind, _, life = order["process"].partition("-")
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(_live(kind, int(life), Path(folder), Endpoints.of(json.loads(survivor))))


async def _live(kind: str, life: int, folder: Path, survivor: Endpoints) -> None:
    await Peer(life, folder).live(kind, survivor)

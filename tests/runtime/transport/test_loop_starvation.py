"""A busy socket leaves the event loop its turns: counted in turns instead of seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runtime.errors import MessageError
from runtime.messages.message import Envelope, Message, message
from runtime.transport import Limits, Release
from runtime.transport.ports import BATCH
from runtime.transport.sockets import SocketTransport

READY = 60_000


@message
class Tick(Message):
    number: int


@pytest.mark.parametrize("kind", ["unix", "ipc"])
async def test_the_loop_turns_at_least_once_per_batch_of_a_socket_with_60_000_ready_messages(
    tmp_path: Path, kind: str
) -> None:
    turns = 0
    since_turn = 0
    worst = 0
    arrived = 0
    all_here = asyncio.Event()
    loop = asyncio.get_running_loop()

    def deliver(envelope: Envelope, size: int, release: Release) -> None:
        nonlocal since_turn, worst, arrived
        arrived += 1
        since_turn += 1
        worst = max(worst, since_turn)
        if arrived == READY:
            all_here.set()

    def turn() -> None:
        """Count a turn of the loop; any due timer or task would run as often."""
        nonlocal turns, since_turn
        turns = turns + 1
        since_turn = 0
        if not all_here.is_set():
            loop.call_soon(turn)

    def reject(peer: str, error: MessageError) -> None:
        raise error

    # no sender is held back: all messages are ready at once
    limits = Limits(control_credit_bytes=READY * 1024)

    def road(name: str) -> SocketTransport:
        bind = f"{kind}://{tmp_path}/{name}."
        return SocketTransport(
            name, deliver, reject, limits, incarnation=1, bind=lambda lane: (bind + lane,)
        )

    a = road("a")
    b = road("b")
    await a.open()
    a.connect("b", await b.open())
    for number in range(READY):
        await a.send("b", Envelope(Tick(number=number), number + 1, "x", 1, "y"))
    loop.call_soon(turn)
    await all_here.wait()
    assert worst <= BATCH
    assert turns >= READY // BATCH
    assert BATCH <= 64  # at 8000 messages per second and more this is 8 ms between two turns
    await a.close()
    await b.close()

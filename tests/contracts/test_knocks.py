"""Strangers that connect and leave while a process computes and its event loop reads nothing."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest
from roads import paired
from test_broken_links import SECRET, End
from test_encrypted_links import place

from runtime.messages.message import Envelope
from runtime.transport import Limits
from tests.contracts.roads import Load

PATIENT = Limits(link_seconds=60.0)  # on a busy machine this many connections take half a minute
# by default ZeroMQ queues 1000 messages at each end, and stops when both queues are full
KNOCKS = 3000


def knocks(host: str, port: int) -> int:
    """The number of strangers that could connect, one after the other."""
    for number in range(KNOCKS):
        try:
            socket.create_connection((host, port), 5).close()
        except OSError:
            return number
    return KNOCKS


@pytest.mark.parametrize("scheme", ["tcp", "curve"])
async def test_thousands_of_strangers_at_a_blocked_loop_stop_no_link_and_each_is_counted(
    scheme: str,
) -> None:
    keys = paired("p", "q", "r") if scheme == "curve" else dict.fromkeys("pqr", SECRET)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        p, q, r = (End(name, f"{scheme}://127.0.0.1:*", keys[name], PATIENT) for name in "pqr")
        for end in (p, q, r):
            stack.push_async_callback(end.road.close)
        there = await q.road.open()
        p.road.connect("q", there)
        await p.say("q", 1)
        await p.road.send("q", Envelope(Load(number=0, blobs=()), 0, "me", 1, "you"))
        # both lanes are connected: ZeroMQ waits 5 s for a handshake
        assert {await q.came.get(), await q.came.get()} == {0, 1}
        # there is no await here, so the loop, which is also q's, is blocked
        came_in = knocks(*place(there.control[0]))
        for _ in range(came_in):
            who, error = await q.refused.get()
            assert (who, error.reason) == ("a stranger", "refused")
        assert came_in == KNOCKS
        await p.say("q", 2)
        r.road.connect("q", there)
        await r.say("q", 3)
        assert {await q.came.get(), await q.came.get()} == {2, 3}
        assert p.lost.empty()

"""Many strangers on TCP links: the data that they send and the connections that they hold cost a
process little, and true peers still join.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from test_broken_links import SECRET, End
from test_encrypted_links import place

from benchmarks.floods.floods import CLAIMS, CROWDS, GROWTH, MIB, MORE, Listening, greeting
from runtime.errors import LaunchError
from runtime.machine import descriptors
from runtime.messages.message import Envelope
from runtime.transport import Limits
from runtime.transport.zmtp.strangers import MOST
from runtime.transport.zmtp.turnstile import Turnstile
from tests.contracts.roads import Load, paired

SCHEMES = ["tcp", "curve"]
QUICK = {"claims": (20, 31 * MIB), "crowd": (200, 256 << 10), "largest": (40, MIB)}
FULL = {"claims": CLAIMS, "crowd": CROWDS, "largest": (100, MIB)}


@pytest.mark.parametrize("flood", QUICK)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_strangers_that_claim_memory_and_hold_connections_cost_little_of_both(
    scheme: str, flood: str
) -> None:
    with Listening(scheme) as listening:
        cost = listening.attacked(*QUICK[flood], seconds=1.0)
    assert cost.descriptors <= MORE
    assert cost.mib <= GROWTH


@pytest.mark.slow
@pytest.mark.parametrize("flood", FULL)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_strangers_in_thousands_cost_32_MiB_and_64_descriptors_at_most(
    scheme: str, flood: str
) -> None:
    descriptors.more()
    connections, size = FULL[flood]
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < connections + 100:
        pytest.skip(f"this user may not open {connections} connections")
    with Listening(scheme) as listening:
        for _ in range(2):  # the second round must not add to the cost of the first
            cost = listening.attacked(connections, size)
            assert cost.descriptors <= MORE
            assert cost.mib <= GROWTH


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_peer_is_accepted_when_the_strangers_that_hold_all_places_have_left(
    scheme: str,
) -> None:
    keys = paired("p", "q") if scheme == "curve" else dict.fromkeys("pq", SECRET)
    p, q = (
        End(name, f"{scheme}://127.0.0.1:*", keys[name], Limits(link_seconds=60.0)) for name in "pq"
    )
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        for end in (p, q):
            stack.push_async_callback(end.road.close)
        there = await q.road.open()
        held = []
        for _ in range(MOST + 20):
            held.append(
                stack.enter_context(closing(socket.create_connection(place(there.control[0]))))
            )
            held[-1].sendall(greeting(b"PLAIN" if scheme == "tcp" else b"CURVE"))
        p.road.connect("q", there)
        await p.say("q", 1)
        coming = asyncio.create_task(q.came.get())
        done, _ = await asyncio.wait([coming], timeout=0.5)
        assert not done  # the peer waits behind the strangers
        for each in held:
            each.close()
        assert await coming == 1


async def test_hundreds_of_true_peers_are_accepted_at_once_and_take_no_places(
    tmp_path: Path,
) -> None:
    names = [f"p{number}" for number in range(2 * MOST)]
    keys = paired("q", *names)
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        ends = {
            name: End(name, "curve://127.0.0.1:*", keys[name], Limits(link_seconds=60.0))
            for name in keys
        }
        for end in ends.values():
            stack.push_async_callback(end.road.close)
        there = await ends["q"].road.open()
        for number, name in enumerate(names):
            ends[name].road.connect("q", there)
            await ends[name].say("q", number)
            await ends[name].road.send(
                "q", Envelope(Load(number=number, blobs=()), number + 1, name, 1, "you")
            )
        came = sorted([await ends["q"].came.get() for _ in range(2 * len(names))])
        assert came == sorted(2 * list(range(len(names))))


async def test_a_connection_without_a_free_descriptor_is_reported_and_accepted_later() -> None:
    keys = dict.fromkeys("pq", SECRET)
    p, q = (End(name, "tcp://127.0.0.1:*", keys[name], Limits(link_seconds=60.0)) for name in "pq")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        for end in (p, q):
            stack.push_async_callback(end.road.close)
        there = await q.road.open()
        stranger = stack.enter_context(closing(socket.socket()))
        stranger.setblocking(False)
        with closing(socket.socket()) as spare:
            lowest = spare.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            stranger.connect_ex(place(there.control[0]))
            who, error = await q.refused.get()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert who == "a stranger"
        assert "it cannot be accepted: " in str(error) and "Too many open files" in str(error)
        p.road.connect("q", there)
        await p.say("q", 1)
        assert await q.came.get() == 1


@pytest.mark.parametrize("scheme", ["unix", "tcp", "curve"])
async def test_a_link_without_a_free_descriptor_is_refused_with_a_reason(
    scheme: str, tmp_path: Path
) -> None:
    keys = paired("p", "q") if scheme == "curve" else dict.fromkeys("pq", SECRET)
    place = f"unix://{tmp_path}/{{lane}}" if scheme == "unix" else f"{scheme}://127.0.0.1:*"
    p = End("p", place.replace("{lane}", "p{lane}"), keys["p"])
    q = End("q", place.replace("{lane}", "q{lane}"), keys["q"])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        for end in (p, q):
            stack.push_async_callback(end.road.close)
        await p.road.open()
        there = await q.road.open()
        with closing(socket.socket()) as spare:
            lowest = spare.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            with pytest.raises(
                LaunchError,
                match=("process 'p' cannot connect to 'q': Too many open files: this proc"),
            ):
                p.road.connect("q", there)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        kept = []
        for more in range(1, 9):  # some of the descriptors that a link needs are free
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more, limits[1]))
            try:
                p.road.connect("q", there)
            except LaunchError as error:
                kept.append(error)  # kept with its traceback, as the code that ends a run keeps it
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert kept
        await p.road.close()  # close waits for every socket of ZeroMQ
        assert all(
            ("Too many open files: this process has reached its limit") in str(error)
            for error in kept
        )


def test_an_address_that_is_taken_is_refused_and_leaves_no_socket_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(OSError) as caught:
            Turnstile("127.0.0.1:{1}".format(*taken.getsockname()), 1 << 16)
        assert caught.value.errno == errno.EADDRINUSE
        assert len(list(Path("/proc/self/fd").iterdir())) == before

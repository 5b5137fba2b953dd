"""Seconds until a thousand true peers have joined one process: `python joining.py SCHEME`
prints them.

The peers are sockets of one thread. Each connects over TCP, proves its identity and sends one
message. `benchmarks.floods` runs this file on two trees in turns, so it imports only the runtime of
the tree in PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import zmq
from zmq.utils import z85

from runtime.machine import descriptors
from runtime.messages import wire
from runtime.messages.message import Envelope, Save
from runtime.transport import Limits
from runtime.transport.keys import Keys
from runtime.transport.sockets import SocketTransport
from runtime.transport.zeromq import key_pair

PEERS = 1000
SECRET = "a secret"


def _dial(
    address: str, pairs: list[tuple[bytes, bytes]], public: bytes, left: list[zmq.Socket[bytes]]
) -> None:
    """Connect all peers and send a message from each. Their sockets stay open in `left`."""
    context: zmq.Context[Any] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 1 << 14)
    for number, (own, private) in enumerate(pairs):
        dealer = context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.ROUTING_ID, f"p{number}/1.{number}".encode())
        dealer.setsockopt(zmq.LINGER, 0)
        if public:
            for option, key in (
                (zmq.CURVE_SERVERKEY, public),
                (zmq.CURVE_PUBLICKEY, own),
                (zmq.CURVE_SECRETKEY, private),
            ):
                dealer.setsockopt(option, z85.encode(key))
        else:
            dealer.setsockopt(zmq.PLAIN_USERNAME, b"convoy")
            dealer.setsockopt(zmq.PLAIN_PASSWORD, SECRET.encode())
        dealer.connect(address)
        dealer.send_multipart(
            [bytes(frame) for frame in wire.encode(Envelope(Save(), 1, f"p{number}", 1, "q"))]
        )
        left.append(dealer)


async def joined(scheme: str, peers: int = PEERS) -> float:
    """The seconds from the first connection to the last message."""
    descriptors.more()
    hub = key_pair()
    pairs = [key_pair() for _ in range(peers)]
    known = {f"p{number}": pair[0] for number, pair in enumerate(pairs)}
    keys = Keys(SECRET) if scheme == "tcp" else Keys("", *hub, known)
    words = 0
    everybody = asyncio.Event()

    def deliver(envelope: Envelope, size: int, release: Any) -> None:
        nonlocal words
        words += 1
        release()
        if words == peers:
            everybody.set()

    road = SocketTransport(
        "q",
        deliver,
        lambda *_: None,
        Limits(),
        incarnation=1,
        keys=keys,
        bind=lambda lane: (f"{scheme}://127.0.0.1:*",),
    )
    address = (await road.open()).control[0].replace("curve://", "tcp://")
    left: list[zmq.Socket[bytes]] = []
    began = time.monotonic()
    dialling = asyncio.create_task(
        asyncio.to_thread(_dial, address, pairs, hub[0] if scheme == "curve" else b"", left)
    )
    async with asyncio.timeout(60):
        await everybody.wait()
    seconds = time.monotonic() - began
    await dialling
    for dealer in left:
        dealer.close()
    await road.close()
    return seconds


if __name__ == "__main__":
    print(asyncio.run(joined(sys.argv[1])))

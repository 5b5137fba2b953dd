"""The other systems as `benchmarks.messages` measures them: their forms of an ask, a tell and an
array.

Convoy is in `convoy`, the bars in `messages`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import zmq
import zmq.asyncio

from benchmarks.helpers.report import ROOT
from benchmarks.messages.convoy import longest_gap

LAST = b"last"  # the mark of a message that is answered
WHEN = b"when"  # the mark of one whose answer is its arrival time, nanoseconds on the host's clock


class ZmqAsyncio:
    """Plain `zmq.asyncio`: a DEALER at end `a`, a ROUTER at end `b`, with a payload as large as
    Convoy's."""

    def __init__(self, name: str, bind: dict[str, str], payload: int, ready: int = 0) -> None:
        self._name = name
        self._bind = bind
        self._payload = bytes(payload)
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER if name == "a" else zmq.ROUTER)
        if ready:
            self._socket.set_hwm(0)
        self._count = 0
        self._wanted = 0
        self._enough = asyncio.Event()

    async def open(self) -> Any:
        """Listen, at end `b`."""
        if self._name == "b":
            self._socket.bind(self._bind["b"].format(lane="raw"))
        return self._socket.get_string(zmq.LAST_ENDPOINT) if self._name == "b" else ""

    async def connect(self, other: Any) -> None:
        """Link the two ends."""
        if self._name == "a":
            self._socket.connect(other)
            await self.round_trips(1)
        else:
            self._serving = asyncio.create_task(self._serve())

    async def close(self) -> None:
        """Close the socket."""
        if self._name == "b":
            self._serving.cancel()
        self._context.destroy(linger=0)

    async def _serve(self) -> None:
        while True:
            identity, body, *last = await self._socket.recv_multipart()
            self._count += 1
            if last:
                answer = str(perf_counter_ns()).encode() if last == [WHEN] else body
                await self._socket.send_multipart([identity, answer])
            if self._count == self._wanted:
                self._enough.set()

    async def round_trips(self, count: int) -> float:
        """The median seconds until the answer."""
        taken = []
        for _ in range(count):
            since = perf_counter()
            await self._socket.send_multipart([self._payload, LAST])
            await self._socket.recv()
            taken.append(perf_counter() - since)
        return median(taken)

    async def one_way(self, count: int) -> float:
        """Messages per second, from the first send until the last one was received."""
        since = perf_counter()
        for _ in range(count):
            await self._socket.send(self._payload)
        await self.round_trips(1)
        return count / (perf_counter() - since)

    async def arrays(self, size: int, count: int) -> float:
        """The median seconds until a small message arrived, each sent after `size` bytes were
        written, as for Convoy's arrays."""
        array = np.ones(size, np.uint8)
        taken = []
        for number in range(count):
            array.fill(number)
            since = perf_counter_ns()
            await self._socket.send_multipart([self._payload, WHEN])
            taken.append(int(await self._socket.recv()) - since)
        return median(taken) / 1e9

    async def flood(self, count: int) -> int:
        """Send that many messages."""
        for _ in range(count):
            await self._socket.send(self._payload)
        await asyncio.sleep(1.0)
        return count

    async def expect(self, count: int) -> int:
        """Does what `Convoy.expect` does."""
        self._wanted = self._count + count
        self._enough.clear()
        return count

    async def hold(self) -> float:
        """Measures the same as `Convoy.hold`."""
        return await longest_gap(self._enough, sys.stdin.readline)


class Bare:
    """One byte over a plain socket, with both ends blocking: the cost of waking another process
    here, independent of the messaging system."""

    def __init__(self, name: str, bind: dict[str, str]) -> None:
        self._name = name
        self._place = bind["b"].format(lane="bare").removeprefix("ipc://")
        self._socket = socket.socket(socket.AF_UNIX)

    async def open(self) -> Any:
        """Listen, at end `b`."""
        if self._name == "b":
            self._socket.bind(self._place)
            self._socket.listen()
        return self._place

    async def connect(self, other: Any) -> None:
        """Link the two ends."""
        if self._name == "a":
            self._socket.connect(other)
        else:
            threading.Thread(target=self._serve, daemon=True).start()

    async def close(self) -> None:
        """Close the socket at end `a`. The other end's is closed with its process."""
        if self._name == "a":
            self._socket.close()

    def _serve(self) -> None:
        peer = self._socket.accept()[0]
        while peer.recv(1):
            peer.sendall(perf_counter_ns().to_bytes(8, "big"))

    async def arrays(self, size: int, count: int) -> float:
        """Measures the same as `ZmqAsyncio.arrays`."""
        array = np.ones(size, np.uint8)
        taken = []
        for number in range(count):
            array.fill(number)
            since = perf_counter_ns()
            self._socket.sendall(b".")
            taken.append(int.from_bytes(self._socket.recv(8), "big") - since)
        return median(taken) / 1e9


class Pyzmq:
    """Blocking pyzmq without copies (`copy=False`): a DEALER at end `a`, a ROUTER in a thread at
    end `b`."""

    def __init__(self, name: str, bind: dict[str, str]) -> None:
        self._name = name
        self._bind = bind
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER if name == "a" else zmq.ROUTER)

    async def open(self) -> Any:
        """Listen, at end `b`."""
        if self._name == "b":
            self._socket.bind(self._bind["b"].format(lane="raw"))
        return self._socket.get_string(zmq.LAST_ENDPOINT) if self._name == "b" else ""

    async def connect(self, other: Any) -> None:
        """Link the two ends."""
        if self._name == "a":
            self._socket.connect(other)
            await self.stream(4, 1)
        else:
            threading.Thread(target=self._serve, daemon=True).start()

    async def close(self) -> None:
        """Close the socket at end `a`. The other end's is closed with its process."""
        if self._name == "a":
            self._context.destroy(linger=0)

    def _serve(self) -> None:
        while True:
            identity, _, *last = self._socket.recv_multipart(copy=False)
            if last:
                self._socket.send_multipart([identity.bytes, LAST])

    async def stream(self, size: int, count: int) -> float:
        """Measures the same as `Convoy.stream`."""
        array = np.ones(size // 4, np.float32)
        since = perf_counter()
        for _ in range(count - 1):
            self._socket.send(array, copy=False)
        self._socket.send_multipart([array, LAST], copy=False)
        self._socket.recv()
        return size * count / (perf_counter() - since)


class Ray:
    """A Ray actor in another process, which end `a` starts itself."""

    def __init__(self, name: str) -> None:
        import ray

        self._ray = ray

    async def open(self) -> Any:
        """Start Ray and the actor."""

        class Echo:
            def ping(self, number: int) -> int:
                return number

        self._ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            object_store_memory=100 << 20, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
        )  # fmt: skip
        self._actor = self._ray.remote(Echo).remote()
        await self.round_trips(1)

    async def connect(self, other: Any) -> None:
        """Does nothing: Ray has linked the processes."""

    async def close(self) -> None:
        """Stop Ray."""
        self._ray.shutdown()

    async def round_trips(self, count: int) -> float:
        """The median seconds of a call."""
        taken = []
        for number in range(count):
            since = perf_counter()
            self._ray.get(self._actor.ping.remote(number))
            taken.append(perf_counter() - since)
        return median(taken)


class Xoscar:
    """A xoscar actor in the second process of a pool, which end `a` starts itself."""

    def __init__(self, name: str) -> None:
        import xoscar

        self._xoscar = xoscar

    async def open(self) -> Any:
        """Start the pool and the actor."""
        from benchmarks.messages.xoscar import Echo

        self._pool = await self._xoscar.create_actor_pool("127.0.0.1", n_process=1)
        where = self._xoscar.allocate_strategy.ProcessIndex(1)
        self._actor = await self._xoscar.create_actor(
            Echo, uid="echo", address=self._pool.external_address, allocate_strategy=where
        )
        await self.round_trips(1)

    async def connect(self, other: Any) -> None:
        """Does nothing: xoscar has linked the processes."""

    async def close(self) -> None:
        """Stop the pool."""
        await self._pool.stop()

    async def round_trips(self, count: int) -> float:
        """The median seconds of a call."""
        taken = []
        for number in range(count):
            since = perf_counter()
            await self._actor.ping(number)
            taken.append(perf_counter() - since)
        return median(taken)

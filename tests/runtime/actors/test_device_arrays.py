"""Messages whose arrays lie on a device: by reference to an actor of the same process that reads
it, as one copy on the host to all others."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from runtime.actors.actor import Actor
from runtime.errors import MessageError
from runtime.messages.message import Array, Envelope, Message, message
from runtime.transport import Endpoints
from tests.helpers.node_pair import Asker, Pair


class OnDevice:
    """The array that a device would hold. NumPy cannot read it."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.shape = host.shape
        self.dtype = host.dtype
        self.ndim = host.ndim
        self.nbytes = host.nbytes


class Shared(OnDevice):
    """An array as the backend of a device shares it. Counts its copies."""

    def __init__(self, host: np.ndarray) -> None:
        super().__init__(host)
        self.array = OnDevice(host)
        self.copies = 0
        self._copy: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.host)

    def on_host(self) -> np.ndarray:
        if self._copy is None:
            self.copies += 1
            self._copy = self.host.copy()
        return self._copy


@message
class Numbers(Message):
    blobs: tuple[Array, ...]


class Reader(Actor):
    """Keeps the arrays that it gets."""

    def __init__(self, *, reads: bool = False) -> None:
        self.reads_device = reads
        self.found: asyncio.Queue[Any] = asyncio.Queue()

    async def on_numbers(self, said: Numbers, envelope: Envelope) -> None:
        for blob in said.blobs:
            self.found.put_nowait(blob)
        await self.reply(envelope, said)


class Teller(Asker):
    """Only sends; the test drives it."""

    reads_device = True


async def placed(pair: Pair) -> tuple[Teller, dict[str, Reader]]:
    """A sender and two readers in process p, one of which reads the device, and a reader in process
    q that would read it, too."""
    teller = Teller()
    readers = {"near": Reader(reads=True), "cpu": Reader(), "far": Reader(reads=True)}
    pair.p.add("teller", "client", teller)
    for name in ("near", "cpu"):
        pair.p.add(name, "reader", readers[name])
    pair.q.add("far", "reader", readers["far"])
    pair.p.connect("p", 1, Endpoints(), ["teller", "near", "cpu"], pair.road_p)
    pair.p.connect("q", 1, Endpoints(), ["far"], pair.road_p)
    pair.q.connect("p", 1, Endpoints(), ["teller", "near", "cpu"], pair.road_q)
    for node, names in ((pair.p, ["teller", "near", "cpu"]), (pair.q, ["far"])):
        await node.prepare(names)
        node.begin(names)
    return teller, readers


async def test_a_reader_of_the_device_gets_the_array_itself_and_all_others_share_one_copy(
    pair: Pair,
) -> None:
    teller, readers = await placed(pair)
    shared = Shared(np.arange(5.0))
    for name in readers:
        await teller.tell(name, Numbers(blobs=(shared,)))  # type: ignore[arg-type]
    near, cpu, far = [await reader.found.get() for reader in readers.values()]
    assert near is shared.array
    assert shared.copies == 1
    for found in (cpu, far):
        assert np.shares_memory(found, shared.on_host()) and not found.flags.writeable
    assert [teller.hands_over(name) for name in readers] == [True, False, False]


async def test_messages_with_device_arrays_arrive_in_the_order_in_which_they_were_sent(
    pair: Pair,
) -> None:
    teller, readers = await placed(pair)
    for number in range(20):
        blob: Any = np.full(3, number, np.float32)
        blobs = (Shared(blob) if number % 3 else blob,)
        await teller.tell("far", Numbers(blobs=blobs))
    found = [(await readers["far"].found.get())[0] for _ in range(20)]
    assert found == list(range(20))


async def test_questions_and_answers_carry_device_arrays(pair: Pair) -> None:
    teller, _ = await placed(pair)
    shared: Any = Shared(np.arange(4.0))
    answer = await teller.ask("far", Numbers(blobs=(shared, np.ones(2))), Numbers)
    np.testing.assert_array_equal(answer.blobs[0], np.arange(4.0))
    np.testing.assert_array_equal(answer.blobs[1], np.ones(2))


async def test_an_array_on_a_device_that_was_not_shared_is_refused_with_its_type(
    pair: Pair,
) -> None:
    teller, _ = await placed(pair)
    raw: Any = OnDevice(np.ones(3))
    for name in ("near", "cpu"):
        with pytest.raises(MessageError, match=r"blobs is a OnDevice, expected a NumPy array"):
            await teller.tell(name, Numbers(blobs=(raw,)))


async def test_an_array_outside_of_a_message_is_copied_once(pair: Pair) -> None:
    teller, _ = await placed(pair)
    shared: Any = Shared(np.arange(3.0))
    host = np.ones(2)
    assert await teller.to_host(host) is host
    assert await teller.to_host(shared) is await teller.to_host(shared)
    assert shared.copies == 1

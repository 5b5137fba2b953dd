"""The in-process road on virtual time: order and arrival times over links with any latency and
rate.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from runtime.errors import MessageError
from runtime.messages.message import Array, Envelope, Message, message
from runtime.simulation.clock import run_virtual
from runtime.transport import Endpoints, Limits, Release
from runtime.transport.inproc import InprocNetwork, InprocTransport


@message
class Dot(Message):
    number: int


@message
class Blob(Message):
    number: int
    blob: Array


def arrivals(
    network: InprocNetwork, *bodies: Message, limits: Limits | None = None
) -> list[tuple[float, int]]:
    """The virtual time and the envelope id of each arrival, of messages that `a` sends to `b` as
    fast as it may.
    """
    found: list[tuple[float, int]] = []

    def deliver(envelope: Envelope, size: int, release: Release) -> None:
        found.append((asyncio.get_running_loop().time(), envelope.id))
        release()

    def reject(peer: str, error: MessageError) -> None:
        raise error

    async def main() -> None:
        a, b = (
            InprocTransport(name, deliver, reject, limits or Limits(), network) for name in "ab"
        )
        for road in (a, b):
            await road.open()
        a.connect("b", Endpoints())
        for number, body in enumerate(bodies):
            await a.send("b", Envelope(body, number, "x", 1, "y"))
        await asyncio.sleep(1000)
        assert a.queued_bytes() == {"b": 0}
        for road in (a, b):
            await road.close()

    run_virtual(main())
    return found


@pytest.mark.parametrize("latency", [0.0, 0.01])
@pytest.mark.parametrize("rate", [0.0, 1e6, 1e300])
def test_a_lane_keeps_its_order_even_if_many_messages_arrive_at_one_moment(
    latency: float, rate: float
) -> None:
    found = arrivals(InprocNetwork(latency, rate), *(Dot(number=number) for number in range(100)))
    assert [number for _, number in found] == list(range(100))


def test_messages_arrive_after_the_latency_and_the_time_that_all_bytes_before_them_take() -> None:
    bodies = [Blob(number=number, blob=np.zeros(100_000, np.uint8)) for number in range(3)]
    found = arrivals(InprocNetwork(latency=0.5, bytes_per_second=1e5), *bodies)
    # headers take some bytes too
    assert [at for at, _ in found] == pytest.approx([1.5, 2.5, 3.5], rel=2e-3)


def test_the_lanes_do_not_wait_for_one_another() -> None:
    found = arrivals(
        InprocNetwork(bytes_per_second=1e5),
        Blob(number=0, blob=np.zeros(100_000, np.uint8)),
        Dot(number=1),
    )
    assert [number for _, number in found] == [1, 0]
    assert found[0][0] < 0.01


def test_a_sender_without_credits_waits_until_its_bytes_have_arrived() -> None:
    bodies = [Blob(number=number, blob=np.zeros(1000, np.uint8)) for number in range(3)]
    limits = Limits(credit_bytes=1100)
    found = arrivals(InprocNetwork(latency=1.0), *bodies, limits=limits)
    assert [at for at, _ in found] == [1.0, 2.0, 3.0]

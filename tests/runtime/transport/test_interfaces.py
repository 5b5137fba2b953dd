"""The simulated network: each link has a rate, or all links of a machine share the rate of its
network interface.
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
from runtime.transport.network_model import LinkRule

RATE = 1e6  # bytes per second
NAMES = "abcdef"
ALONE = {name: name for name in NAMES}


@message
class Parcel(Message):
    number: int
    blob: Array


@message
class Note(Message):
    number: int


def parcel(seconds: float, number: int = 0) -> Parcel:
    """A message that takes so many seconds on a line (its header takes a little more)."""
    return Parcel(number=number, blob=np.zeros(int(seconds * RATE), np.uint8))


def arrivals(
    network: InprocNetwork, *sent: tuple[float, str, str, Message]
) -> dict[tuple[str, str, int], float]:
    """The virtual time of each arrival by (from, to, number). The messages are sent at given times
    over one network.
    """
    found: dict[tuple[str, str, int], float] = {}

    async def main() -> None:
        roads: dict[str, InprocTransport] = {}

        def deliver(envelope: Envelope, size: int, release: Release) -> None:
            key = (envelope.sender, envelope.receiver, envelope.message.number)  # type: ignore[attr-defined]
            found[key] = asyncio.get_running_loop().time()
            release()

        def reject(peer: str, error: MessageError) -> None:
            raise error

        for name in NAMES:
            roads[name] = InprocTransport(name, deliver, reject, Limits(), network)
            await roads[name].open()
        for road in roads.values():
            for peer in NAMES:
                road.connect(peer, Endpoints())

        async def send(at: float, a: str, b: str, body: Message, number: int) -> None:
            await asyncio.sleep(at)
            await roads[a].send(b, Envelope(body, number, a, 1, b))

        await asyncio.gather(*(send(*each, number) for number, each in enumerate(sent, 1)))
        await asyncio.sleep(1000)
        for road in roads.values():
            await road.close()

    run_virtual(main())
    return found


def about(seconds: float) -> object:
    return pytest.approx(seconds, rel=2e-3)  # headers take some bytes too


def test_messages_of_five_peers_arrive_at_the_same_time_if_each_link_has_the_rate() -> None:
    found = arrivals(InprocNetwork(0.0, RATE), *((0.0, name, "a", parcel(1)) for name in "bcdef"))
    assert list(found.values()) == [about(1)] * 5


def test_messages_of_five_peers_to_one_interface_share_its_rate() -> None:
    found = arrivals(
        InprocNetwork(0.0, RATE, ALONE), *((0.0, name, "a", parcel(1)) for name in "bcdef")
    )
    assert list(found.values()) == [about(5)] * 5


def test_messages_of_one_interface_to_five_peers_share_its_rate() -> None:
    found = arrivals(
        InprocNetwork(0.0, RATE, ALONE), *((0.0, "a", name, parcel(1)) for name in "bcdef")
    )
    assert list(found.values()) == [about(5)] * 5


def test_a_later_message_slows_the_one_under_way_from_then_on() -> None:
    sent = [(0.0, "a", "b", parcel(2)), (1.0, "c", "b", parcel(0.5))]
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *sent)
    assert found["c", "b", 0] == about(2)  # half the rate for a second
    assert found["a", "b", 0] == about(2.5)


def test_links_use_the_rate_that_other_links_cannot_use() -> None:
    pairs = ("ac", "bc", "ec", "bd")  # a third of c's rate each; b has two thirds left for d
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *((0.0, a, b, parcel(1)) for a, b in pairs))
    assert [found[a, b, 0] for a, b in pairs] == [about(3), about(3), about(3), about(1.5)]


def test_the_end_of_a_message_makes_room_for_links_that_are_only_indirectly_connected_to_it() -> (
    None
):
    """a-c and b-c have half of c each, so b-d has the other half of b. When a-c ends, b-c gets no
    more, since b is shared. When b-c ends too, b-d has all of b.
    """
    sent = [(0.0, "a", "c", parcel(1)), (0.0, "b", "c", parcel(1.5)), (0.0, "b", "d", parcel(2))]
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *sent)
    assert [found["a", "c", 0], found["b", "c", 0], found["b", "d", 0]] == [
        about(2),
        about(3),
        about(3.5),
    ]


def test_a_slowed_link_leaves_more_to_the_links_of_its_other_interface() -> None:
    """c-a and e-a have half of a each. Three more messages from c leave a quarter to c-a, and so
    three quarters of a to e-a.
    """
    sent = [(0.0, "c", "a", parcel(1)), (0.0, "e", "a", parcel(1))]
    late = [(0.5, "c", name, parcel(2)) for name in "bdf"]
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *sent, *late)
    assert found["e", "a", 0] == about(1.5)
    assert found["c", "a", 0] == about(3.5)


def test_messages_of_one_link_go_one_after_the_other() -> None:
    sent = [(0.0, "a", "b", parcel(1, number)) for number in range(3)]
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *sent)
    assert [found["a", "b", number] for number in range(3)] == [about(1), about(2), about(3)]


def test_both_directions_of_an_interface_and_different_pairs_do_not_wait_for_one_another() -> None:
    pairs = ("ab", "ba", "cd", "ef")
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *((0.0, a, b, parcel(1)) for a, b in pairs))
    assert list(found.values()) == [about(1)] * 4


def test_the_latency_is_added_once_on_either_kind_of_network() -> None:
    for interfaces in (None, ALONE):
        found = arrivals(InprocNetwork(0.25, RATE, interfaces), (0.0, "a", "b", parcel(1)))
        assert found["a", "b", 0] == about(1.25)


def test_a_link_may_have_its_own_latency_and_rate_within_those_of_its_interfaces() -> None:
    links = [
        LinkRule("a", "b", latency=0.5),
        LinkRule("a", "*", bytes_per_second=RATE / 4),
        LinkRule("a", "b", latency=9.0),
    ]
    network = InprocNetwork(0.1, RATE, ALONE, links)
    alone = arrivals(
        network, (0.0, "a", "b", parcel(1)), (2.0, "a", "c", parcel(1)), (8.0, "c", "a", parcel(1))
    )
    assert [alone[key, other, 0] for key, other in ("ab", "ac", "ca")] == [
        about(1.5),
        about(6.1),
        about(9.1),
    ]
    both = arrivals(network, (0.0, "a", "b", parcel(3)), (0.0, "a", "c", parcel(1)))
    assert both["a", "c", 0] == about(4.1)  # a quarter of the rate; three quarters are left for b
    assert both["a", "b", 0] == about(4.5)


def test_one_link_alone_may_have_a_latency() -> None:
    network = InprocNetwork(links=[LinkRule("a", "b", latency=2.0)])
    found = arrivals(network, (0.0, "a", "b", parcel(1)), (0.0, "b", "a", parcel(1)))
    assert (found["a", "b", 0], found["b", "a", 0]) == (2.0, 0.0)


def test_processes_of_one_machine_share_its_interface_and_reach_one_another_at_once() -> None:
    machines = {"a": "left", "b": "left", "c": "right", "d": "right"}
    sent = [(0.0, "a", "c", parcel(1)), (0.0, "b", "d", parcel(1)), (0.0, "a", "b", parcel(1))]
    found = arrivals(InprocNetwork(0.1, RATE, machines), *sent)
    assert found["a", "b", 0] == 0.0
    assert (found["a", "c", 0], found["b", "d", 0]) == (about(2.1), about(2.1))


def test_a_message_without_arrays_is_not_held_up_behind_a_large_one() -> None:
    sent = [(0.0, "a", "b", parcel(5)), (0.1, "a", "b", Note(number=1))]
    found = arrivals(InprocNetwork(0.0, RATE, ALONE), *sent)
    assert found["a", "b", 1] == about(0.1)
    assert found["a", "b", 0] == about(5)


def test_a_lane_keeps_its_order_through_two_interfaces() -> None:
    sent = [
        (0.0, "a", "b", parcel(size, number))
        for number, size in enumerate((0.5, 0, 0.2, 0, 0, 0.1))
    ]
    found = arrivals(InprocNetwork(0.01, RATE, ALONE), *sent)
    order = sorted(found, key=lambda key: found[key])
    assert [number for _, _, number in order] == list(range(6))

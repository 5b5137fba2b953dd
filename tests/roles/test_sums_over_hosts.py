"""Sums of members on several hosts: the same numbers everywhere, in a fixed order. One sum leaves
each host and one arrives."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ops import Array
from roles.exchange.chosen_exchange import Chosen, exchange_called
from roles.exchange.exchange import TREE, Between, Home, Layout, Members
from runtime import MessageError
from runtime.actors.actor import Actor
from runtime.queueing.all_reduce import halving_seconds, ring_from, ring_seconds, tree_seconds
from runtime.transport.inproc import InprocNetwork
from tests.roles.placed import placed
from tests.roles.summing import OPS, SIZES, Member, array_of, names_of, summed
from tests.roles.test_exchanges import ZEROS, contribution, in_order

RING = ((0, "ring"),)
HALVES = ((0, "halving"),)
KINDS = [
    ("per-host", TREE),
    ("per-host", RING),
    ("per-host", (*TREE, (100, "ring"))),
    ("per-host", HALVES),
    ("per-host", (*TREE, (100, "halving"))),
    ("tree", TREE),
    ("host", TREE),
    ("ring", TREE),
    ("halving", TREE),
]


def cases(*hosts: tuple[int, ...], kinds: Sequence[tuple[str, Between]] = KINDS) -> list[Any]:
    """Ways to sum over hosts with these numbers of members; by halves only if that is possible."""
    return [
        pytest.param(kind, way, each, id=f"{kind}-{way}-{each}")
        for (kind, way), each in itertools.product(kinds, hosts)
        if "halving" not in f"{kind} {way}"
        or (sum(each) if kind == "halving" else len(each)).bit_count() == 1
    ]


def laid_out(
    kind: str, hosts: Sequence[int], way: Between
) -> tuple[Chosen, Layout, list[tuple[str, ...]]]:
    """The options of the members, the layout, and the members on each host, which are neighbours by
    rank."""
    names = names_of(sum(hosts))
    cuts = [0, *itertools.accumulate(hosts)]
    homes = [tuple(names[low:high]) for low, high in itertools.pairwise(cuts)]
    members = Members(tuple(names), hosts=tuple(Home(home, 2) for home in homes), between=way)
    layout = exchange_called(kind).laid_out(members)
    return Chosen(kind, layout.options), layout, homes


def run(kind: str, hosts: Sequence[int], way: Between, **more: int) -> dict[str, Member]:
    chosen, layout, _ = laid_out(kind, hosts, way)
    return summed(chosen, sum(hosts), layout=layout, **more)  # type: ignore[arg-type]


def of_hosts(arrays: list[Array], hosts: Sequence[int]) -> Array:
    """Add up neighbours on each host in pairs, then the hosts."""
    cuts = [0, *itertools.accumulate(hosts)]
    return in_order([in_order(arrays[low:high], 2) for low, high in itertools.pairwise(cuts)], 2)


@pytest.mark.parametrize(
    ("kind", "way", "hosts"), cases((1, 1), (2, 2), (1, 3), (2, 2, 2), (4, 4), (3, 1, 2, 1))
)
def test_every_member_on_every_host_gets_the_sum_of_all_in_its_fixed_order(
    kind: str, way: Between, hosts: tuple[int, ...]
) -> None:
    found = [run(kind, hosts, way, seed=seed) for seed in (1, 2)]
    for step, (bucket, size) in itertools.product(range(3), enumerate(SIZES)):
        arrays = [array_of(rank, step, size) for rank in range(sum(hosts))]
        got = {member.found[step, bucket].tobytes() for each in found for member in each.values()}
        assert len(got) == 1
        expected = in_order(arrays, 2) if kind == "halving" else of_hosts(arrays, hosts)
        rings = (
            kind == "ring"
            or next(each for least, each in reversed(way) if 4 * size >= least) == "ring"
        )
        if rings and len(hosts) > 2:
            largest = np.sum(np.abs(arrays), axis=0, dtype=np.float64)
            assert (
                np.abs(np.frombuffer(got.pop(), np.float32) - np.sum(arrays, axis=0))
                <= 1e-6 * largest
            ).all()
        elif kind != "ring":
            assert got == {expected.tobytes()}


@pytest.mark.parametrize(
    ("kind", "way", "hosts"),
    cases(
        (2, 2),
        (2, 2, 2),
        (4, 4),
        (1,) * 4,
        (1,) * 8,
        (2,) * 4,
        kinds=[case for case in KINDS if "ring" not in str(case)],
    ),
)
def test_hosts_with_as_many_members_each_add_up_to_the_bits_of_one_host(
    kind: str, way: Between, hosts: tuple[int, ...]
) -> None:
    found = run(kind, hosts, way, seed=1)
    count = sum(hosts)
    for step, (bucket, size) in itertools.product(range(3), enumerate(SIZES)):
        expected = in_order([array_of(rank, step, size) for rank in range(count)], 2)
        assert found["member-0"].found[step, bucket].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "way", "hosts"), cases((2, 2, 2), (3, 1, 2, 1), (2,) * 8, kinds=KINDS[:7])
)
def test_one_link_leads_from_each_host_to_another_and_not_one_from_each_member(
    kind: str, way: Between, hosts: tuple[int, ...]
) -> None:
    _, layout, homes = laid_out(kind, hosts, way)
    home = {name: place for place, names in enumerate(homes) for name in names}
    home |= {server.name: home[server.options.beside] for server in layout.servers}
    crossing = [(a, b) for a, b in layout.links if home[a] != home[b]]
    ends = Counter(name for link in crossing for name in link)
    assert len({home[name] for name in ends}) == len(ends) == len(hosts)  # one actor of each host
    partners = (
        (len(hosts).bit_length() if way[-1][1] == "halving" else 2) if kind == "per-host" else 1
    )
    assert len(crossing) <= partners * len(hosts)


@pytest.mark.parametrize("members", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("size", [4_000, 400_000])
def test_every_way_takes_the_time_that_is_predicted_and_the_fastest_one_is_chosen(
    members: int, size: int
) -> None:
    rate = 1e6
    latency = 0.01
    took = {}
    for way in (TREE, RING, HALVES)[: 3 if members.bit_count() == 1 else 2]:
        interfaces = {name: name for name in names_of(members)}
        network = InprocNetwork(bytes_per_second=rate, latency=latency, interfaces=interfaces)
        chosen, layout, _ = laid_out("per-host", (1,) * members, way)
        numbers = {
            "steps": 1,
            "seed": None,
            "sizes": (size // 4,),
            "network": network,
            "layout": layout,
        }
        found = summed(chosen, members, **numbers)  # type: ignore[arg-type]
        took[way] = max(member.ended[0] for member in found.values())
    assert took[RING] == pytest.approx(ring_seconds(members, size, rate, latency), rel=0.02)
    # and on the way down, a child reports that it has the array before the next child gets it
    levels = (members - 1).bit_length()
    assert took[TREE] == pytest.approx(
        tree_seconds(members, size, rate, latency), abs=levels * latency + 1e-3, rel=0.01
    )
    least = ring_from(members, rate, latency)
    assert least is not None
    if abs(took[RING] - took[TREE]) > levels * latency:
        assert (size >= least) == (took[RING] < took[TREE])
    if HALVES in took:
        assert took[HALVES] == pytest.approx(
            halving_seconds(members, size, rate, latency), rel=0.02
        )
        assert took[HALVES] <= 1.01 * min(took.values())


def test_without_a_limit_of_the_network_no_sum_uses_a_ring() -> None:
    assert ring_from(8, None, 0.1) is None
    assert ring_from(2, 1e9, 0.1) == 0  # the ring sends as many messages, each half as long
    assert ring_from(1, 1e9, 0.1) is None


@pytest.mark.parametrize("way", [TREE, RING, HALVES])
@pytest.mark.parametrize(
    ("sender", "why"),
    [
        ("member-3", "not from this sender"),
        ("member-9", "not from this sender"),
        ("member-4", "no such bucket"),
    ],
)
def test_a_message_that_does_not_belong_to_a_sum_over_hosts_is_rejected(
    way: Between, sender: str, why: str
) -> None:
    actor = Actor()
    # The first member of its host. It receives from members of its own host, and from some first
    # members of other hosts.
    placed(actor, "member-0")
    chosen, _, _ = laid_out("per-host", (2,) * 4 if way == HALVES else (2, 2, 2), way)
    exchange = chosen.of(actor, dict(enumerate(SIZES)), OPS, np.float32)
    bucket = 99 if sender == "member-4" else -1 - 4 * 4 if way == RING else 4
    with pytest.raises(MessageError, match=why):
        exchange.contributed(contribution(bucket, ZEROS), sender)

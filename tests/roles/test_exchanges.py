"""The exchanges: every member gets the sum of all arrays. The sum is the same to the last bit for
every order of arrival."""

from __future__ import annotations

import asyncio
import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roles.exchange.collective
from ops import Array
from roles.exchange.accumulator import AccumulatorOptions, HostAccumulator
from roles.exchange.chosen_exchange import exchange_called
from roles.messages import Contribution, SharedSum
from runtime import Actor, Envelope, MessageError
from runtime.transport.inproc import InprocNetwork
from tests.roles.placed import placed
from tests.roles.summing import OPS, SIZES, array_of, names_of, options_of, summed

KINDS: list[tuple[str, dict[str, int]]] = [
    ("collective", {}), ("collective", {"adders": 1}), ("collective", {"adders": 2}),
    ("tree", {"fan_in": 2}), ("tree", {"fan_in": 3}), ("host", {}), ("halving", {}),
]  # fmt: skip


def in_order(arrays: list[Array], fan_in: int) -> Array:
    """Add up neighbours, `fan_in` at a time from the left, then their sums in the same way."""
    while len(arrays) > 1:
        level = arrays
        arrays = []
        for start in range(0, len(level), fan_in):
            total = level[start]
            for array in level[start + 1 : start + fan_in]:
                total = total + array
            arrays.append(total)
    return arrays[0]


@pytest.mark.parametrize("members", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(
    ("kind", "more", "alone"), [(*kind, 0) for kind in KINDS] + [("collective", {}, 1 << 30)]
)
def test_every_member_gets_the_sum_in_its_fixed_order_to_the_last_bit_whichever_is_late(
    kind: str, more: dict[str, int], members: int, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if exchange_called(kind).refuses(members):
        pytest.skip(f"{kind} does not sum {members}")
    monkeypatch.setattr(roles.exchange.collective, "ALONE_BYTES", alone)
    for seed in (1, 2):
        found = summed(options_of(kind, members, **more), members, seed=seed)
        assert len(found) == members
        for step in range(3):
            for bucket, size in enumerate(SIZES):
                arrays = [array_of(rank, step, size) for rank in range(members)]
                expected = in_order(arrays, more.get("fan_in", 2))
                for member in found.values():
                    got = member.found[step, bucket]
                    assert (got.dtype, got.tobytes()) == (np.float32, expected.tobytes())


def test_the_order_of_addition_shows_in_the_bits_that_are_compared() -> None:
    arrays = [array_of(rank, 0, 1000) for rank in range(4)]
    assert (
        in_order(arrays, 2).tobytes()
        != in_order(arrays, 5).tobytes()
        != in_order(arrays[::-1], 5).tobytes()
    )


@pytest.mark.parametrize("members", [2, 4, 8, 16])
def test_one_bucket_goes_up_and_down_a_binary_tree_in_the_time_of_equation_4(members: int) -> None:
    size = 250_000
    rate = 1e6
    network = InprocNetwork(
        bytes_per_second=rate, interfaces={name: name for name in names_of(members)}
    )
    found = summed(
        options_of("tree", members, fan_in=2),
        members,
        steps=1,
        seed=None,
        sizes=(size,),
        network=network,
    )
    expected = 4 * size * 2 * math.log2(members) / rate
    assert max(member.ended[0] for member in found.values()) == pytest.approx(expected, rel=1e-3)


async def test_down_the_tree_children_with_most_members_below_them_get_the_sum_first() -> None:
    actor = Actor()
    told = []
    placed(actor, "member-0")

    async def tell(to: str, message: Any, *answer: Any, step: int) -> None:
        told.append(to)

    async def compute(label: str, work: Any, *args: Any) -> Any:
        return work(*args)

    actor.ask = actor.tell = tell  # type: ignore[method-assign, assignment]
    actor.compute = compute  # type: ignore[method-assign, assignment]
    exchange = options_of("tree", 8, fan_in=2).of(actor, {0: 2}, OPS, np.float32)
    for child in (1, 2, 4):
        exchange.contributed(contribution(0, np.full(2, child, np.float32)), f"member-{child}")
    assert (await exchange.sum((0, 0), np.zeros(2, np.float32)))().tolist() == [7, 7]
    assert told == ["member-4", "member-2", "member-1"]


# -- rejections by member-1 of three; in a tree, member-0 is its parent, and it has no children


def member(kind: str, name: str = "member-1", dtype: Any = np.float32, **more: int) -> Any:
    actor = Actor()
    placed(actor, name)
    return options_of(kind, 3, **more).of(actor, dict(enumerate(SIZES)), OPS, dtype)


def contribution(bucket: int, values: Array, into: tuple[Array, ...] = ()) -> Contribution:
    return Contribution(number=0, bucket=bucket, values=values, into=into)


ZEROS = np.zeros(1000, np.float32)
BAD: list[tuple[str, int, Array, str]] = [
    ("stranger", 4, ZEROS, "not from this sender"),
    ("member-2", 9, ZEROS, "bucket 9, sender member-2.* is 'no such bucket'"),
    ("member-2", 4, np.zeros(999, np.float32), r"float32\(1000,\)"),
    ("member-2", 4, np.zeros(1000, np.float64), "float64"),
    ("member-2", 4, np.zeros((10, 100), np.float32), r"\(10, 100\)"),
]


@pytest.mark.parametrize(("sender", "bucket", "values", "why"), BAD)
@pytest.mark.parametrize(("kind", "more"), [("collective", {}), ("tree", {"fan_in": 3})])
async def test_a_message_that_does_not_belong_to_a_sum_is_rejected_and_changes_nothing(
    kind: str, more: dict[str, int], sender: str, bucket: int, values: Array, why: str
) -> None:
    exchange = member(kind, "member-0", **more)
    with pytest.raises(MessageError, match=why):
        exchange.contributed(contribution(bucket, values), sender)
    exchange.contributed(contribution(4, ZEROS), "member-2")
    with pytest.raises(
        MessageError,
        match=r"illegal: .* of member-2: .* is 'here', this message is legal in 'awaited",
    ):
        exchange.contributed(contribution(4, ZEROS), "member-2")


@pytest.mark.parametrize(
    ("kind", "more", "sender"),
    [("collective", {}, "member-2"), ("tree", {"fan_in": 3}, "member-2"), ("host", {}, "sums")],
)
async def test_a_sum_takes_arrays_of_its_precision_only(
    kind: str, more: dict[str, int], sender: str
) -> None:
    exchange = member(kind, "member-0", np.float64, **more)

    def given(values: Array) -> None:
        if kind == "host":
            exchange.summed(SharedSum(number=0, bucket=4, values=(values,)), sender)
        else:
            exchange.contributed(contribution(4, values), sender)

    with pytest.raises(MessageError, match=r"sent float32\(1000,\), expected float64\(1000,\)"):
        given(ZEROS)
    given(np.zeros(1000))


@pytest.mark.parametrize(
    ("kind", "more", "above"),
    [
        ("collective", {"adders": 1}, "member-0"),
        ("tree", {"fan_in": 2}, "member-0"),
        ("host", {}, "sums"),
    ],
)
async def test_a_sum_is_taken_once_and_only_from_the_member_that_makes_it(
    kind: str, more: dict[str, int], above: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles.exchange.collective, "ALONE_BYTES", 0)
    exchange = member(kind, **more)
    whole = SharedSum(number=0, bucket=4, values=(ZEROS,))
    for sender, message in (
        ("member-2", whole), (above, SharedSum(number=0, bucket=4, values=())),
        (above, SharedSum(number=0, bucket=4, values=(ZEROS, ZEROS))),
        (above, SharedSum(number=0, bucket=4, values=(ZEROS[1:],))),
    ):  # fmt: skip
        with pytest.raises(
            MessageError,
            match=(
                r"illegal: .* is '(not from this sender|awaited from below)'|expected 1|expected "
                r"float32\(1000,\)"
            ),
        ):
            exchange.summed(message, sender)
    exchange.summed(whole, above)
    with pytest.raises(MessageError, match=r"illegal: .* is 'here'"):
        exchange.summed(whole, above)


@pytest.mark.parametrize(
    ("kind", "more"), [("collective", {"adders": 1}), ("tree", {"fan_in": 2}), ("host", {})]
)
async def test_gradients_are_not_taken_where_nothing_is_added_up(
    kind: str, more: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles.exchange.collective, "ALONE_BYTES", 0)
    for sender in ("member-0", "member-2", "sums"):
        with pytest.raises(MessageError, match=rf"illegal: .* of {sender}"):
            member(kind, **more).contributed(contribution(4, ZEROS), sender)


@pytest.mark.parametrize(
    ("kind", "more"), [("collective", {"adders": 1}), ("tree", {"fan_in": 2}), ("host", {})]
)
async def test_a_message_after_the_sum_is_complete_is_rejected(
    kind: str, more: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles.exchange.collective, "ALONE_BYTES", 0)
    exchange = member(kind, **more)
    told = []

    async def tell(to: str, message: Any, *, step: int) -> None:
        told.append((to, type(message)))

    exchange._actor.tell = tell
    above = "sums" if kind == "host" else "member-0"
    total = asyncio.create_task(exchange.sum((0, 4), ZEROS))
    whole = SharedSum(number=0, bucket=4, values=(ZEROS + 1,))
    exchange.summed(whole, above)
    assert (await total)()[0] == 1
    assert told == [(above, Contribution)]
    with pytest.raises(MessageError, match="summed before"):
        exchange.summed(whole, above)
    if kind == "collective":
        with pytest.raises(MessageError, match="summed before"):
            exchange.contributed(contribution(4, ZEROS), "member-2")


def test_only_the_first_member_of_a_collective_gives_memory_for_a_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roles.exchange.collective, "ALONE_BYTES", 0)
    for sender, into in (("member-0", ()), ("member-2", (ZEROS,)), ("member-0", (ZEROS, ZEROS))):
        with pytest.raises(MessageError, match="memories"):
            member("collective").contributed(contribution(4, ZEROS, into), sender)


# -- the accumulator


class Accumulator(HostAccumulator, overrides=("compute", "memory", "phase", "tell")):
    """An accumulator that computes at once and keeps the messages that it sends."""

    def __init__(self) -> None:
        super().__init__(AccumulatorOptions(members=("a", "b")))
        placed(self, "sums")
        self.told = []
        self._sums = SimpleNamespace(inc=lambda: None)
        self._build()

    def memory(self, size: int) -> Array:
        return np.empty(size, np.uint8)

    def phase(self, name: str) -> Any:
        return nullcontext()

    async def compute(self, label: str, work: Any, *args: Any) -> Any:
        return work(*args)

    async def tell(self, to: str, message: Any, *, step: int = -1) -> None:
        self.told.append((to, message.values[0].tolist()))

    async def take(self, sender: str, values: Array, number: int = 0) -> None:
        message = Contribution(number=number, bucket=0, values=values, into=())
        await self.on_contribution(
            message, Envelope(id=1, sender=sender, receiver="sums", incarnation=1, message=message)
        )


async def test_an_accumulator_adds_each_member_once_and_sends_the_sum_to_all() -> None:
    sums, (one, two) = Accumulator(), np.eye(2, dtype=np.float32)
    await sums.take("b", two)
    for sender, values, why in (
        ("b", two, "is 'here'"), ("c", one, "is 'none of its parts'"),
        ("a", ZEROS, r"float32\(2,\)"), ("a", np.ones(2), "float64"),
    ):  # fmt: skip
        with pytest.raises(MessageError, match=why):
            await sums.take(sender, values)
    assert not sums.told
    await sums.take("a", one)
    assert sums.told == [("a", [1, 1]), ("b", [1, 1])]
    with pytest.raises(MessageError, match="complete before"):
        await sums.take("a", one)
    await sums.take("a", one, number=1)
    await sums.take("b", one, number=1)
    assert sums.told[2:] == [("a", [2, 0]), ("b", [2, 0])]


# -- by halves: member-1 of four; its partners are member-0, which continues with the first half,
# and member-3


def by_halves() -> Any:
    actor = Actor()
    placed(actor, "member-1")
    return options_of("halving", 4).of(actor, dict(enumerate(SIZES)), OPS, np.float32)


@pytest.mark.parametrize(
    ("sender", "bucket", "size", "why"),
    [
        ("member-2", 4, 504, "not from this sender"), ("member-1", 4, 504, "not from this sender"),
        ("member-0", 9, 504, "no such bucket"),
        ("member-0", 4, 503, r"float32\(504,\)"), ("member-3", 4, 504, r"float32\(256,\)"),
    ],
)  # fmt: skip
async def test_a_half_comes_from_a_partner_once_and_in_its_size(
    sender: str, bucket: int, size: int, why: str
) -> None:
    exchange = by_halves()
    with pytest.raises(MessageError, match=why):
        exchange.contributed(contribution(bucket, ZEROS[:size]), sender)
    for partner, right in (("member-0", 504), ("member-3", 256)):
        exchange.contributed(contribution(4, ZEROS[:right]), partner)
        with pytest.raises(
            MessageError, match=r"illegal: .* is 'here', this message is legal in 'awaited"
        ):
            exchange.contributed(contribution(4, ZEROS[:right]), partner)


async def test_a_part_of_the_whole_comes_from_a_partner_once_and_in_its_pieces() -> None:
    exchange = by_halves()

    def whole(*sizes: int) -> SharedSum:
        return SharedSum(number=0, bucket=4, values=tuple(ZEROS[:size] for size in sizes))

    for message, why in (
        (whole(496), "expected 2"),
        (whole(240, 255), r"float32\(256,\)"),
        (whole(), "found 0 arrays"),
    ):
        with pytest.raises(MessageError, match=why):
            exchange.summed(message, "member-0")
    exchange.summed(whole(240, 256), "member-0")
    with pytest.raises(MessageError, match=r"illegal: .* is 'here'"):
        exchange.summed(whole(240, 256), "member-0")
    with pytest.raises(MessageError, match="not from this sender"):
        exchange.summed(whole(240, 256), "member-2")
    with pytest.raises(MessageError, match="memories for a sum"):
        exchange.contributed(contribution(4, ZEROS[:504], (ZEROS,)), "member-0")
    assert repr(exchange) == "<halving exchange with member-0, member-3, <summands of 0 sums>>"

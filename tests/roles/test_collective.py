"""The collective: every member gets the sum of all arrays, to the last bit the same whatever the order of arrival."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import ops
import roles.collective
from ops import Array
from roles.collective import Collective, shares
from roles.messages import Contribution, SharedSum
from runtime import Actor, ActorSpec, Envelope, MessageError, Topology
from runtime.clock import run_virtual
from runtime.simulation import simulate
from runtime.topology import Placement, ProcessSpec

SIZES = (0, 1, 16, 17, 1000)  # of buckets 0, 1, ...
OPS = ops.get_backend("numpy")


def array_of(rank: int, step: int, bucket: int) -> Array:
    """Numbers of very different sizes, so that the order of addition shows in the last bits."""
    rng = np.random.default_rng((rank, step, bucket))
    return (rng.standard_normal(SIZES[bucket]) * 10.0 ** rng.integers(-4, 5, SIZES[bucket])).astype(np.float32)


class Member(Actor):
    """Sums every bucket of some steps, all of a step at once, and keeps what it gets."""

    def __init__(self, *, rank: int, members: list[str], steps: int) -> None:
        self._rank, self._members, self._steps = rank, members, steps
        self.found: dict[tuple[int, int], Array] = {}

    async def on_start(self) -> None:
        self.collective = Collective(self, self._members, dict(enumerate(SIZES)), OPS)

    async def run(self) -> None:
        for step in range(self._steps):
            keys = [(step, bucket) for bucket in range(len(SIZES))]
            await asyncio.gather(*(self._sum(key) for key in keys))
        await asyncio.sleep(100)  # on the virtual clock: until the others are done too

    async def _sum(self, key: tuple[int, int]) -> None:
        await self.compute("work", lambda: None)
        total = await self.collective.sum(key, array_of(self._rank, *key))
        self.found[key] = await self.compute("total", total)

    async def on_contribution(self, message: Contribution, envelope: Envelope) -> None:
        self.collective.contributed(message, envelope.sender)

    async def on_shared_sum(self, message: SharedSum, envelope: Envelope) -> None:
        self.collective.summed(message, envelope.sender)


def summed(members: int, steps: int, seed: int) -> dict[str, Member]:
    """The members after the last step, each on a device whose work takes a random time."""
    names = [f"member-{rank}" for rank in range(members)]
    specs = tuple(
        ActorSpec(name, "member", {"rank": rank, "members": names, "steps": steps}) for rank, name in enumerate(names)
    )
    links = tuple((a, b) for a in names for b in names if a < b)
    placement = Placement(
        Topology("tests", specs, links, names[0]), tuple(ProcessSpec(name, "here", (name,)) for name in names)
    )
    found: dict[str, Any] = {}
    delays = np.random.default_rng(seed)
    run_virtual(
        simulate(
            placement,
            {"member": Member},
            service_time=lambda actor, label: float(delays.exponential(0.1)),
            prepared=found.update,
        )
    )
    return found


@pytest.mark.parametrize("alone", [0, 1 << 30], ids=["shared", "alone"])
@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_every_member_gets_the_sum_in_the_order_of_ranks_to_the_last_bit_whoever_is_late(
    members: int, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles.collective, "ALONE_BYTES", alone)
    for seed in (1, 2):
        found = summed(members, steps=3, seed=seed)
        assert len(found) == members
        for step in range(3):
            for bucket in range(len(SIZES)):
                expected = array_of(0, step, bucket)
                for rank in range(1, members):
                    expected = expected + array_of(rank, step, bucket)
                for member in found.values():
                    got = member.found[step, bucket]
                    assert (got.dtype, got.tobytes()) == (np.float32, expected.tobytes())


def test_shares_cover_everything_once_and_begin_with_cache_lines() -> None:
    for size in (0, 1, 15, 16, 17, 100, 4097):
        for members in (1, 2, 3, 7):
            found = shares(size, members)
            assert [n for low, high in found for n in range(low, high)] == list(range(size))
            assert len(found) == members and all(low % 16 == 0 or low == size for low, _ in found)
            assert max(high - low for low, high in found) - size / members < 2 * 16


@pytest.mark.parametrize(
    ("sender", "bucket", "values", "why"),
    [
        ("stranger", 1, np.zeros(1, np.float32), "no member"),
        ("b", 9, np.zeros(1, np.float32), "no bucket"),
        ("b", 4, np.zeros(999, np.float32), r"float32\(1000,\)"),
        ("b", 4, np.zeros(1000, np.float64), "float64"),
        ("b", 4, np.zeros((10, 100), np.float32), r"\(10, 100\)"),
    ],
)
def test_what_does_not_belong_to_a_sum_is_rejected_and_changes_nothing(
    sender: str, bucket: int, values: Array, why: str
) -> None:
    actor = Actor()
    actor.name = "a"
    collective = Collective(actor, ["a", "b"], dict(enumerate(SIZES)), OPS)
    with pytest.raises(MessageError, match=why):
        collective.contributed(Contribution(number=0, bucket=bucket, values=values, into=()), sender)
    fine = Contribution(number=0, bucket=4, values=np.zeros(1000, np.float32), into=())
    collective.contributed(fine, "b")
    with pytest.raises(MessageError, match="twice"):
        collective.contributed(fine, "b")
    with pytest.raises(MessageError, match="expected"):
        collective.summed(SharedSum(number=0, bucket=4, values=(np.zeros(3, np.float32),)), "b")

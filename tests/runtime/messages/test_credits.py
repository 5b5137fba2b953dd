"""Byte credits, compared with a small model: bounded, in order, without losses, and no sender waits
for ever.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.errors import ActorStopped
from runtime.messages.credits import GRANT_SHARE, MINIMUM_COST, CreditGate, cost_of
from runtime.messages.grants import GrantBook
from runtime.simulation.clock import run_virtual

LIMIT = 800
SLACK = LIMIT // GRANT_SHARE


async def turns(count: int = 3) -> None:
    """Run the event loop, so that every task that can go on does."""
    for _ in range(count):
        await asyncio.sleep(0)


class GateMachine(RuleBasedStateMachine):
    """Senders with random sizes come, wait, are cancelled and get grants. The model is a list of
    the sizes on their way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.gate = CreditGate(LIMIT)
        # (number, size, task) in order of arrival
        self.waiting: deque[tuple[int, int, asyncio.Task[None]]] = deque()
        self.under_way: list[int] = []  # the sizes on their way, by the model
        self.count = 0

    def settle(self) -> None:
        """Run the loop, then move the admitted senders to `under_way`; they must be the first that
        waited.
        """
        self.loop.run_until_complete(turns())
        while self.waiting and self.waiting[0][2].done():
            _, size, task = self.waiting.popleft()
            assert task.exception() is None
            assert sum(self.under_way) + size <= LIMIT or sum(self.under_way) <= SLACK, (
                "admitted more than the window allows"
            )
            self.under_way.append(size)
        assert not any(task.done() for _, _, task in self.waiting), (
            "a later sender overtook an earlier one"
        )

    @rule(size=st.integers(0, 2 * LIMIT))
    def sender_comes(self, size: int) -> None:
        self.count += 1
        self.waiting.append((self.count, size, self.loop.create_task(self.gate.acquire(size))))
        self.settle()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def receiver_grants(self, data: st.DataObject) -> None:
        self.gate.grant(self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1))))
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def waiting_sender_is_cancelled(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.waiting) - 1))
        task = self.waiting[index][2]
        del self.waiting[index]
        task.cancel()
        self.settle()
        assert task.cancelled()

    @precondition(lambda self: self.waiting and self.under_way)
    @rule(data=st.data())
    def sender_is_cancelled_in_the_moment_of_its_turn(self, data: st.DataObject) -> None:
        # drawn first: a draw may end the example here
        index = data.draw(st.integers(0, len(self.under_way) - 1))
        task = self.waiting.popleft()[2]
        self.gate.grant(self.under_way.pop(index))
        task.cancel()
        self.settle()
        assert task.cancelled()

    @invariant()
    def outstanding_bytes_are_those_under_way(self) -> None:
        assert self.gate.outstanding == sum(self.under_way)
        assert self.gate.waiting == len(self.waiting)

    @invariant()
    def never_more_out_than_the_window_and_its_slack_or_one_larger_message_on_the_slack(
        self,
    ) -> None:
        assert self.gate.outstanding <= SLACK + max([LIMIT, *self.under_way])

    @invariant()
    def no_sender_waits_that_may_go(self) -> None:
        if self.waiting:
            assert self.gate.outstanding + self.waiting[0][1] > LIMIT
            assert self.gate.outstanding > SLACK

    def teardown(self) -> None:
        for size in self.under_way:
            self.gate.grant(size)
        self.under_way.clear()
        while self.waiting:
            self.settle()
            while self.under_way:
                self.gate.grant(self.under_way.pop())
        assert self.gate.outstanding == 0
        self.loop.close()


TestGate = GateMachine.TestCase
TestGate.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 4000),
    sizes=st.lists(st.integers(0, 6000), min_size=1, max_size=60),
    hold=st.integers(1, 5),
)
def test_grants_that_the_receiver_still_collects_never_stall_a_sender(
    limit: int, sizes: list[int], hold: int
) -> None:
    """The receiver holds up to `hold` messages and releases the rest. On virtual time a stall
    raises Deadlock.
    """

    async def talk() -> None:
        gate = CreditGate(limit)
        book = GrantBook(limit)
        held: deque[int] = deque()
        arrived: asyncio.Queue[int] = asyncio.Queue()

        async def send() -> None:
            for size in sizes:
                await gate.acquire(cost_of(size))
                arrived.put_nowait(cost_of(size))

        async def read() -> None:
            for _ in sizes:
                held.append(await arrived.get())
                if len(held) == hold or arrived.empty():
                    while held:
                        gate.grant(book.release(held.popleft()))

        await asyncio.gather(send(), read())
        assert gate.outstanding <= max(limit // GRANT_SHARE - 1, 0)

    run_virtual(talk())


@given(limit=st.integers(0, 10_000), sizes=st.lists(st.integers(0, 3000), max_size=50))
def test_a_grant_book_gives_back_everything_but_less_than_a_share(
    limit: int, sizes: list[int]
) -> None:
    book = GrantBook(limit)
    grants = [book.release(size) for size in sizes]
    kept = sum(sizes) - sum(grants)
    assert 0 <= kept <= max(limit // GRANT_SHARE - 1, 0)
    assert all(grant == 0 or grant >= limit // GRANT_SHARE for grant in grants)


async def test_senders_go_in_the_order_of_their_arrival_even_if_a_later_one_would_fit() -> None:
    gate = CreditGate(LIMIT)
    order = []

    async def send(name: str, size: int) -> None:
        await gate.acquire(size)
        order.append(name)

    await gate.acquire(LIMIT)
    senders = [
        asyncio.create_task(send(*who)) for who in (("large", LIMIT), ("small", 1), ("smaller", 0))
    ]
    await turns()
    gate.grant(LIMIT // 2)
    await turns()
    assert order == []
    gate.grant(LIMIT // 2)
    await turns()
    assert order == ["large"]
    gate.grant(LIMIT)
    await asyncio.gather(*senders)
    assert order == ["large", "small", "smaller"]


async def test_a_newcomer_does_not_overtake_waiting_senders() -> None:
    gate = CreditGate(LIMIT)
    await gate.acquire(LIMIT - 1)
    large = asyncio.create_task(gate.acquire(LIMIT))
    await turns()
    small = asyncio.create_task(gate.acquire(1))
    await turns()
    assert not small.done()
    gate.grant(LIMIT - 1)
    gate.grant(0)
    await large
    gate.grant(LIMIT)
    await small


async def test_a_newcomer_does_not_overtake_an_admitted_sender_that_has_not_run_yet() -> None:
    gate = CreditGate(LIMIT)
    order = []

    async def send(name: str) -> None:
        await gate.acquire(1)
        order.append(name)

    await gate.acquire(LIMIT)
    waiting = asyncio.create_task(send("first"))
    await turns()
    gate.grant(LIMIT)
    await send("second")  # it runs before the task of the first is resumed
    await waiting
    assert order == ["first", "second"]
    assert gate.outstanding == 2


async def test_a_sender_admitted_just_before_the_gate_closes_gets_the_error() -> None:
    gate = CreditGate(LIMIT)
    await gate.acquire(LIMIT)
    waiting = asyncio.create_task(gate.acquire(1))
    await turns()
    gate.grant(LIMIT)
    gate.close("the peer left")
    with pytest.raises(ActorStopped, match="the peer left"):
        await waiting


async def test_when_the_first_in_the_queue_is_cancelled_the_next_goes_at_once() -> None:
    gate = CreditGate(LIMIT)
    await gate.acquire(LIMIT // 2)
    large = asyncio.create_task(gate.acquire(LIMIT))
    small = asyncio.create_task(gate.acquire(1))
    await turns()
    large.cancel()
    await asyncio.gather(small, large, return_exceptions=True)
    assert gate.outstanding == LIMIT // 2 + 1


async def test_closing_fails_waiting_and_later_senders() -> None:
    gate = CreditGate(LIMIT)
    await gate.acquire(LIMIT)
    waiting = [asyncio.create_task(gate.acquire(1)) for _ in range(3)]
    await turns()
    waiting[1].cancel()
    gate.close("the peer left")
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [
        ActorStopped,
        asyncio.CancelledError,
        ActorStopped,
    ]
    assert "the peer left" in str(results[0])
    with pytest.raises(ActorStopped, match="the peer left"):
        await gate.acquire(0)
    assert gate.waiting == 0


async def test_objects_of_a_failed_sender_are_freed_at_once_without_the_cycle_collector() -> None:
    gate = CreditGate(LIMIT)
    seen = []

    async def send() -> None:
        load = {1}  # a set can have a weak reference
        seen.append(weakref.ref(load))
        await gate.acquire(LIMIT)

    gc.disable()
    try:
        await gate.acquire(LIMIT)
        sending = asyncio.create_task(send())
        await turns()
        gate.close("the peer left")
        with suppress(ActorStopped):
            await sending
        del sending
        await turns()
        assert seen[0]() is None
    finally:
        gc.enable()


def test_a_gate_shows_its_state_in_one_line() -> None:
    assert repr(CreditGate(64)) == "<credits 0/64 bytes out, 0 waiting>"


def test_every_message_costs_at_least_the_minimum_so_that_their_number_is_bounded_too() -> None:
    assert [cost_of(size) for size in (0, MINIMUM_COST, MINIMUM_COST + 1)] == [
        MINIMUM_COST,
        MINIMUM_COST,
        257,
    ]

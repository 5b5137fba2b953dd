"""Array work: one piece at a time, in a thread or on virtual time, and always known by its
label.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from runtime.compute.compute import REMEMBERED, Compute, InlineCompute, Item, ThreadCompute
from runtime.simulation.clock import run_virtual


@pytest_asyncio.fixture(params=["thread", "inline"])
async def compute(request: pytest.FixtureRequest) -> AsyncIterator[Compute]:
    made: Compute = ThreadCompute() if request.param == "thread" else InlineCompute()
    yield made
    made.close()


class Kernel:
    """Array work that reports its beginning, and ends when the test releases it."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> bool:
        self._loop.call_soon_threadsafe(self.started.set)
        return self.go.wait()


async def test_a_result_comes_back_and_is_counted(compute: Compute) -> None:
    assert await compute.run("a", "add", lambda x, y: x + y, 2, 3) == 5
    assert (compute.done, compute.current) == (1, None)


async def test_an_error_comes_through_and_the_next_piece_runs(compute: Compute) -> None:
    with pytest.raises(ZeroDivisionError):
        await compute.run("a", "divide", lambda: 1 // 0)
    assert await compute.run("a", "add", lambda: 1) == 1
    assert (compute.done, compute.current) == (2, None)


async def test_pieces_run_one_at_a_time_in_the_order_of_their_calls(compute: Compute) -> None:
    order: list[str] = []
    inside = threading.Lock()

    def work(number: int) -> None:
        assert inside.acquire(blocking=False), "two pieces at once"
        assert compute.current is not None
        order.append(f"{number} {compute.current.actor} {compute.current.label}")
        inside.release()

    await asyncio.gather(*(compute.run(f"actor{n}", f"label{n}", work, n) for n in range(20)))
    assert order == [f"{n} actor{n} label{n}" for n in range(20)]


async def test_the_loop_runs_while_a_kernel_runs_and_knows_its_label() -> None:
    compute = ThreadCompute()
    kernel = Kernel()
    running = asyncio.create_task(compute.run("worker", "conv1 forward", kernel))
    await kernel.started.wait()
    item = compute.current
    assert item is not None
    assert (item.actor, item.label) == ("worker", "conv1 forward")
    assert item.since <= asyncio.get_running_loop().time()
    assert not running.done()
    kernel.go.set()
    assert await running is True
    compute.close()


async def test_brief_work_is_done_on_the_loop_while_the_thread_is_idle_and_is_counted() -> None:
    compute = ThreadCompute()
    seen = []
    compute.on_done = lambda item, seconds: seen.append((item.actor, item.label))

    def work() -> tuple[int, str]:
        assert compute.current is not None
        return threading.get_ident(), compute.current.label

    assert await compute.run_brief("reducer", "reduce", work) == (threading.get_ident(), "reduce")
    assert (compute.done, compute.current, seen) == (1, None, [("reducer", "reduce")])
    compute.close()


async def test_brief_work_waits_in_the_thread_while_the_thread_is_busy() -> None:
    compute = ThreadCompute()
    kernel = Kernel()
    first = asyncio.create_task(compute.run("a", "kernel", kernel))
    await kernel.started.wait()
    second = asyncio.create_task(compute.run_brief("a", "brief", threading.get_ident))
    await asyncio.sleep(0)
    assert not second.done(), "two pieces at once"
    kernel.go.set()
    assert await first is True
    assert await second != threading.get_ident()
    compute.close()


async def test_an_error_of_brief_work_comes_through(compute: Compute) -> None:
    with pytest.raises(ZeroDivisionError):
        await compute.run_brief("a", "divide", lambda: 1 // 0)
    assert await compute.run_brief("a", "add", lambda: 1) == 1
    assert (compute.done, compute.current) == (2, None)


async def test_a_waiting_piece_that_is_cancelled_never_runs() -> None:
    compute = ThreadCompute()
    kernel = Kernel()
    ran = []
    first = asyncio.create_task(compute.run("a", "first", kernel))
    second = asyncio.create_task(compute.run("a", "second", ran.append, 1))
    await kernel.started.wait()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    kernel.go.set()
    await first
    assert await compute.run("a", "third", lambda: 3) == 3
    assert ran == []
    compute.close()


async def test_the_thread_goes_on_to_the_next_piece_without_the_loop() -> None:
    compute = ThreadCompute()
    ran = threading.Event()
    pieces = [
        asyncio.create_task(compute.run("a", "piece", work)) for work in (lambda: None, ran.set)
    ]
    await asyncio.sleep(0)  # both pieces are queued
    assert ran.wait(10), "the second piece waits for the loop, which waits here"
    await asyncio.gather(*pieces)
    compute.close()


async def test_pieces_that_wait_when_the_thread_is_closed_are_cancelled() -> None:
    compute = ThreadCompute()
    kernel = Kernel()
    ran = []
    first = asyncio.create_task(compute.run("a", "first", kernel))
    second = asyncio.create_task(compute.run("a", "second", ran.append, 1))
    await kernel.started.wait()
    compute.close()
    kernel.go.set()
    assert await first is True
    with pytest.raises(asyncio.CancelledError):
        await second
    assert ran == []


async def test_a_closed_compute_thread_takes_no_more_work() -> None:
    compute = ThreadCompute()
    compute.close()
    with pytest.raises(RuntimeError):
        await compute.run("a", "late", lambda: None)
    with pytest.raises(RuntimeError):
        await compute.race("a", "late", lambda: None)
    assert compute.current is None


async def test_races_run_in_parallel_with_one_another_and_with_the_current_piece() -> None:
    compute = ThreadCompute()
    met = threading.Barrier(3)
    turn = compute.run("a", "turn", met.wait, 10)
    races = [compute.race("b", f"race {number}", met.wait, 10) for number in range(2)]
    assert sorted(await asyncio.gather(turn, *races)) == [0, 1, 2]  # all three were inside at once
    assert (compute.done, compute.current) == (3, None)
    compute.close()


async def test_of_several_pieces_in_progress_the_oldest_is_the_current_one() -> None:
    compute = ThreadCompute()
    first = Kernel()
    second = Kernel()
    running = []
    for label, kernel in (("first", first), ("second", second)):
        running.append(asyncio.create_task(compute.race("a", label, kernel)))
        await kernel.started.wait()
    for kernel, label in ((first, "first"), (second, "second")):
        assert compute.current is not None
        assert compute.current.label == label
        kernel.go.set()
        await running.pop(0)
    assert compute.current is None
    compute.close()


async def test_an_error_of_a_race_comes_through_and_the_next_one_runs(compute: Compute) -> None:
    with pytest.raises(ZeroDivisionError):
        await compute.race("a", "divide", lambda: 1 // 0)
    assert await compute.race("a", "add", lambda: 1) == 1
    assert (compute.done, compute.current) == (2, None)


def test_races_on_virtual_time_run_in_parallel() -> None:
    async def main() -> tuple[float, float]:
        compute = InlineCompute(lambda actor, label: 2.0)
        await asyncio.gather(*(compute.race("a", "race", lambda: None) for _ in range(3)))
        return asyncio.get_running_loop().time(), compute.busy

    assert run_virtual(main()) == (2.0, 6.0)


def test_inline_work_takes_its_service_time_on_the_virtual_clock_one_after_another() -> None:
    async def main() -> tuple[list[tuple[str, float]], float, Item | None]:
        compute = InlineCompute(lambda actor, label: {"a": 2.0, "b": 3.0}[actor])
        ends: list[tuple[str, float]] = []

        async def piece(actor: str) -> None:
            await compute.run(actor, "work", lambda: None)
            ends.append((actor, asyncio.get_running_loop().time()))

        await asyncio.gather(piece("a"), piece("b"), piece("a"))
        return ends, compute.usual_seconds(), compute.current

    ends, usual, current = run_virtual(main())
    assert ends == [("a", 2.0), ("b", 5.0), ("a", 7.0)]
    assert usual == 2.0
    assert current is None


def test_the_usual_time_of_a_piece_is_the_median_of_the_last_ones() -> None:
    async def main() -> list[float]:
        seconds = iter([9.0, 1.0, 5.0] + [4.0] * REMEMBERED)
        compute = InlineCompute(lambda actor, label: next(seconds))
        usual = [compute.usual_seconds()]
        for count in (1, 2, REMEMBERED):
            for _ in range(count):
                await compute.run("a", "work", lambda: None)
            usual.append(compute.usual_seconds())
        return usual

    assert run_virtual(main()) == [0.0, 9.0, 5.0, 4.0]

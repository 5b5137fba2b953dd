"""Virtual time: it jumps, keeps order and repeats, and raises Deadlock where a real loop would
hang.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import Deadlock
from runtime.simulation.clock import run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_time_starts_at_zero_and_a_year_passes_at_once() -> None:
    async def main() -> tuple[float, float]:
        began = now()
        await asyncio.sleep(365 * 86400)
        return began, now()

    assert run_virtual(main()) == (0.0, 365 * 86400.0)


def test_computing_takes_no_virtual_time() -> None:
    async def main() -> float:
        sum(range(100_000))
        for _ in range(100):
            await asyncio.sleep(0)
        return now()

    assert run_virtual(main()) == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), max_size=30))
def test_sleepers_wake_in_order_of_time_and_never_early(delays: list[float]) -> None:
    async def main() -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []

        async def sleeper(delay: float) -> None:
            await asyncio.sleep(delay)
            woken.append((delay, now()))

        await asyncio.gather(*map(sleeper, delays))
        return woken

    woken = run_virtual(main())
    assert [delay for delay, _ in woken] == sorted(delays)
    assert [at for _, at in woken] == pytest.approx(sorted(delays), rel=1e-12)


def test_timers_due_at_one_moment_run_in_the_same_order_every_time() -> None:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(5.0, order.append, number)
        await asyncio.sleep(6)
        return order

    first = run_virtual(main())
    assert sorted(first) == list(range(50))
    assert run_virtual(main()) == first


def test_a_timeout_ends_an_endless_wait_at_its_virtual_second() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return now()

    assert run_virtual(main()) == pytest.approx(30)


def test_where_a_real_loop_would_hang_there_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.sleep(10)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="every actor waits and no event is due"):
        run_virtual(main())


def test_two_tasks_that_wait_for_each_other_are_a_deadlock_and_both_are_cleaned_up() -> None:
    ended: list[str] = []

    async def main() -> None:
        a = asyncio.Event()
        b = asyncio.Event()

        async def wait(name: str, mine: asyncio.Event, yours: asyncio.Event) -> None:
            try:
                await yours.wait()
                mine.set()
            finally:
                ended.append(name)

        await asyncio.gather(wait("a", a, b), wait("b", b, a))

    with pytest.raises(Deadlock):
        run_virtual(main())
    assert sorted(ended) == ["a", "b"]


def test_the_same_program_runs_twice_to_the_same_log() -> None:
    async def main() -> list[tuple[float, str, int]]:
        log: list[tuple[float, str, int]] = []
        queue: asyncio.Queue[int] = asyncio.Queue(2)

        async def produce(name: str, period: float) -> None:
            for number in range(20):
                await asyncio.sleep(period)
                await queue.put(number)
                log.append((now(), name, number))

        async def consume() -> None:
            for _ in range(60):
                log.append((now(), "got", await queue.get()))
                await asyncio.sleep(0.07)

        await asyncio.gather(produce("a", 0.1), produce("b", 0.1), produce("c", 0.3), consume())
        return log

    assert run_virtual(main()) == run_virtual(main())


def test_an_error_and_a_result_come_through() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_virtual(fail())

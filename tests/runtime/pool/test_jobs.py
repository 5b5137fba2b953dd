"""The bookkeeping of a pool: no item is lost or done twice, whatever workers die."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from runtime.pool.jobs import Job, Jobs


@given(count=st.integers(0, 8), workers=st.integers(1, 3), deaths=st.lists(st.integers(0, 7)))
def test_every_item_has_one_result_after_any_deaths(
    count: int, workers: int, deaths: list[int]
) -> None:
    jobs = Jobs(range(count))
    left = list(deaths)

    async def work() -> None:
        while (job := await jobs.next()) is not None:
            await asyncio.sleep(0)
            assert job.number not in jobs.results
            if job.number in left:
                left.remove(job.number)
                jobs.died(job)
            else:
                jobs.done(job, job.item)

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(workers)))

    asyncio.run(main())
    assert jobs.results == {number: number for number in range(count)}


async def test_an_item_is_taken_only_when_a_worker_is_free() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            taken.append(number)
            yield number

    jobs = Jobs(items())
    first = await jobs.next()
    assert taken == [0]
    assert isinstance(first, Job)
    jobs.done(first, None)
    await jobs.next()
    assert taken == [0, 1]

"""Following a run of this machine by its files, and learning from the run itself that it is
over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from runtime.attached.attach import Client
from runtime.attached.observed_run import ObservedRun
from runtime.attached.run_status import journal
from runtime.errors import ActorStopped, ConvoyError
from runtime.report.run_phase import RunPhase, after

# events of a journal; one of them is written after the run has closed its socket
LAST_WORDS = {"ended", "stopped", "failed"}
LAST_SECONDS = 1.0  # to wait for this event
LOOK_SECONDS = 0.05


@asynccontextmanager
async def followed(seen: ObservedRun, wanted: bool) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A context in which this process is a client of the run, if `wanted`; the run may take any
    time to admit it. Await the yielded function when the run no longer lives. When it returns, the
    run has written its last line, or never will. It raises ConvoyError if the run did not report
    its end. For a run on another machine `ObservedRun.lives` reports the end, so nothing is done
    here."""
    if not (wanted and seen.is_here):
        yield _nothing
        return
    hearing = asyncio.create_task(_hear(seen), name="the end of a run that is followed")
    try:
        yield partial(_end, seen, hearing)
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _nothing() -> None:
    """Do nothing: the end is not wanted, or was reported already."""


async def _hear(seen: ObservedRun) -> None:
    try:
        async with await asyncio.to_thread(Client, seen.directory, None) as client:
            await client.ended()
    except ActorStopped:  # the run was over, or about to end
        pass


async def _end(seen: ObservedRun, hearing: asyncio.Task[None]) -> None:
    until = asyncio.get_running_loop().time() + LAST_SECONDS
    while not (told := await asyncio.to_thread(journal, seen.directory)).keys() & LAST_WORDS:
        if asyncio.get_running_loop().time() > until:
            break
        await asyncio.sleep(LOOK_SECONDS)
    try:
        await hearing
    except ConvoyError:
        # else only this client was dropped, because it did not read
        if after(told).result == RunPhase.result:
            raise

"""Following a run of this machine by its files, and hearing from it that it is over."""

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

# of a journal, of which one is written when nobody listens any more
LAST_WORDS = {"ended", "stopped", "failed"}
LAST_SECONDS = 1.0  # for it to be there
LOOK_SECONDS = 0.05


@asynccontextmanager
async def followed(seen: ObservedRun, wanted: bool) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Take part in it meanwhile, if that is wanted, and however long it lets nobody in. Await what
    this gives when the run lives no more: it has written its last line then, or will not.
    ConvoyError if nobody said that it is over. (Of a run elsewhere `ObservedRun.lives` says so.)"""
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
    """Nobody wants to know, or it was said already."""


async def _hear(seen: ObservedRun) -> None:
    try:
        async with await asyncio.to_thread(Client, seen.directory, None) as client:
            await client.ended()
    except ActorStopped:  # it was over, or about to be
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
        # and not this process alone was let go, as one that took nothing
        if after(told).result == RunPhase.result:
            raise

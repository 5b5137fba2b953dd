"""Array work, off the event loop: one compute thread per process, or inline on a virtual clock.

The event loop stays free while kernels run (numpy and BLAS release the GIL), and a process never
runs two kernels at once: actors that share a process share its device. The exception is work that
is to race (`race`).
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")
RACERS = 16  # threads for pieces of array work that race
REMEMBERED = 64  # durations kept per process to know what a usual item costs


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A piece of array work in progress: whose, what, and since when (loop time, seconds). Equal
    only to itself: two threads add to and remove from one list of them, which no comparison in
    Python may interrupt."""

    actor: str
    label: str
    since: float
    step: int = -1  # the iteration that it belongs to, if that is asked for


class Compute(ABC):
    """Runs array work for the actors of one process and remembers what it runs."""

    def __init__(self) -> None:
        self._items: list[Item] = []  # in progress, in the order of their beginning
        self.done = 0
        self.busy = 0.0  # seconds of all items so far
        self.on_done: Callable[[Item, float], None] = lambda item, seconds: None
        # of who asks for work: its iteration; None while nobody traces
        self.step: Callable[[str], int] | None = None
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    @abstractmethod
    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run `work(*args)` and return its result; an exception comes through."""

    @abstractmethod
    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """As `run`, but at once, beside whatever else runs, other races too: nothing keeps two off
        one array."""

    async def run_brief(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """As `run`, of work that takes less time than a thread needs to hear of it."""
        return await self.run(actor, label, work, *args)

    @property
    def current(self) -> Item | None:
        """The piece in progress, the oldest of several."""
        return self._items[0] if self._items else None

    def usual_seconds(self) -> float:
        """Median duration of the last items, 0 before the first."""
        return median(self._durations) if self._durations else 0.0

    def close(self) -> None:  # noqa: B027  # most kinds hold nothing to release
        """Take no more work."""

    def _start(self, actor: str, label: str, loop: asyncio.AbstractEventLoop, step: int) -> Item:
        item = Item(actor, label, loop.time(), step)
        self._items.append(item)
        return item

    def _step(self, actor: str) -> int:
        return -1 if self.step is None else self.step(actor)

    def _end(self, item: Item, taken: float) -> None:
        self._items.remove(item)
        self._count(item, taken)

    def _count(self, item: Item, taken: float) -> None:
        self._durations.append(taken)
        self.busy += taken
        self.on_done(item, taken)
        self.done += 1


@dataclass(slots=True)
class _Piece:
    """Array work on its way to the thread and back: `done` is the loop's, its cancelling means that
    nobody waits."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    actor: str
    label: str
    work: Callable[..., Any]
    args: tuple[Any, ...]
    step: int


class ThreadCompute(Compute):
    """A compute thread beside the event loop, and as many more as there are races (at most RACERS).

    Pieces wait in a queue of the thread's own: it goes from one to the next without asking the
    loop, which takes a core that sleeps 0.1 ms and more.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pieces: SimpleQueue[_Piece | None] = SimpleQueue()
        self._asked = self._served = 0  # pieces: the loop counts the former, the thread the latter
        self._closed = False
        # starts none before its first
        self._racers = ThreadPoolExecutor(max_workers=RACERS, thread_name_prefix="race")
        threading.Thread(target=self._serve, name="compute", daemon=True).start()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run. Pieces are done in the order of the calls; RuntimeError after
        `close`."""
        if self._closed:
            raise RuntimeError(f"{label} of {actor}: the compute thread takes no more work")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._asked += 1
        self._pieces.put(_Piece(loop, done, actor, label, work, args, self._step(actor)))
        return await done

    async def run_brief(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run_brief: on the event loop; by the thread, in its turn, if that is at
        something."""
        if self._closed or self._asked != self._served:
            return await self.run(actor, label, work, *args)
        loop = asyncio.get_running_loop()
        item = self._start(actor, label, loop, self._step(actor))
        try:
            return work(*args)
        finally:
            self._end(item, loop.time() - item.since)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.race."""
        loop = asyncio.get_running_loop()
        item = self._start(actor, label, loop, self._step(actor))
        try:
            return await loop.run_in_executor(self._racers, work, *args)
        finally:
            self._end(item, loop.time() - item.since)

    def close(self) -> None:
        """Take no more work; a piece under way is not waited for, those that wait are cancelled."""
        self._closed = True
        self._pieces.put(None)
        self._racers.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        """The thread's life."""
        while self._serve_one():
            self._served += 1

    def _serve_one(self) -> bool:
        """One piece; False at the end. A call of its own: nothing of a piece is held while the next
        is waited for."""
        piece = self._pieces.get()
        if piece is None:
            return False
        loop = piece.loop
        with suppress(RuntimeError):  # the loop is closed: nobody waits for anything
            if self._closed:
                loop.call_soon_threadsafe(piece.done.cancel)
            elif not piece.done.cancelled():
                item = self._start(piece.actor, piece.label, loop, piece.step)
                result, error = _outcome(piece)
                taken = loop.time() - item.since
                self._items.remove(item)
                loop.call_soon_threadsafe(self._finish, item, taken, piece.done, result, error)
        return True

    def _finish(
        self,
        item: Item,
        taken: float,
        done: asyncio.Future[Any],
        result: Any,
        error: BaseException | None,
    ) -> None:
        """On the loop: count the piece and wake who waits for it."""
        self._count(item, taken)
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)


def _outcome(piece: _Piece) -> tuple[Any, BaseException | None]:
    """The result, or what was raised."""
    try:
        return piece.work(*piece.args), None
    except BaseException as error:  # noqa: BLE001  # whoever waits gets it
        return None, error


class InlineCompute(Compute):
    """For the virtual clock: the work is done at once, its duration passes on the clock.

    `service_time(actor, label)` gives the seconds an item takes; None for no time at all.
    """

    def __init__(self, service_time: Callable[[str, str], float] | None = None) -> None:
        super().__init__()
        self._service_time = service_time
        self._turn = asyncio.Lock()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.run."""
        async with self._turn:
            return await self.race(actor, label, work, *args)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """See Compute.race: the durations pass beside one another, the work itself is done one
        after the other."""
        loop = asyncio.get_running_loop()
        item = self._start(actor, label, loop, self._step(actor))
        try:
            result = work(*args)
            if self._service_time is not None:
                await self._pass(self._service_time(actor, label))
            return result
        finally:
            self._end(item, loop.time() - item.since)

    async def _pass(self, seconds: float) -> None:
        """Let so much time go by."""
        await asyncio.sleep(seconds)

"""Array work off the event loop: one compute thread per process, or inline on a virtual clock.

The event loop stays free while kernels run (numpy and BLAS release the GIL). A process never runs
two kernels at once, since actors that share a process share its device. The exception is work that
is given to `race`.
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
REMEMBERED = 64  # durations kept per process, to know what a usual piece of work takes


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A piece of array work in progress: its actor, label and start (loop time, seconds).

    An Item is equal only to itself. Two threads add to and remove from one list of items, and a
    comparison written in Python could interrupt that.
    """

    actor: str
    label: str
    since: float
    step: int = -1  # the iteration that it belongs to, while the process is traced


class Compute(ABC):
    """Runs array work for the actors of one process and remembers what it runs."""

    def __init__(self) -> None:
        self._items: list[Item] = []  # in progress, in the order in which they started
        self.done = 0
        self.busy = 0.0  # seconds of all items so far
        self.on_done: Callable[[Item, float], None] = lambda item, seconds: None
        # actor -> its iteration; None while the process is not traced
        self.step: Callable[[str], int] | None = None
        self._durations: deque[float] = deque(maxlen=REMEMBERED)

    @abstractmethod
    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run `work(*args)` and return its result. Errors of the work are raised."""

    @abstractmethod
    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run work like `run`, but at once, at the same time as all other work of the process,
        races included. Nothing prevents two pieces of work from using the same array."""

    async def run_brief(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run work like `run`. For work that takes less time than handing it to a thread."""
        return await self.run(actor, label, work, *args)

    @property
    def current(self) -> Item | None:
        """The piece of work in progress, the oldest if there are several."""
        return self._items[0] if self._items else None

    def usual_seconds(self) -> float:
        """Return the median duration of the last pieces of work, 0 before the first."""
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
    """Array work on its way to the thread and back. The future `done` belongs to the loop; it is
    cancelled if the caller no longer waits."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    actor: str
    label: str
    work: Callable[..., Any]
    args: tuple[Any, ...]
    step: int


class ThreadCompute(Compute):
    """A compute thread next to the event loop, and at most RACERS more threads for races.

    Pieces of work wait in the thread's own queue. So the thread goes from one piece to the next
    without asking the event loop, which would take 0.1 ms or more on a core that sleeps.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pieces: SimpleQueue[_Piece | None] = SimpleQueue()
        # pieces of work: the loop counts the asked, the thread the served ones
        self._asked = self._served = 0
        self._closed = False
        # starts no thread before its first use
        self._racers = ThreadPoolExecutor(max_workers=RACERS, thread_name_prefix="race")
        threading.Thread(target=self._serve, name="compute", daemon=True).start()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run work in the compute thread; see Compute.run. Pieces are done in the order of the
        calls. Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError(f"{label} of {actor}: the compute thread takes no more work")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._asked += 1
        self._pieces.put(_Piece(loop, done, actor, label, work, args, self._step(actor)))
        return await done

    async def run_brief(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run work on the event loop, or in the thread, in its turn, if the thread is busy."""
        if self._closed or self._asked != self._served:
            return await self.run(actor, label, work, *args)
        loop = asyncio.get_running_loop()
        item = self._start(actor, label, loop, self._step(actor))
        try:
            return work(*args)
        finally:
            self._end(item, loop.time() - item.since)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        loop = asyncio.get_running_loop()
        item = self._start(actor, label, loop, self._step(actor))
        try:
            return await loop.run_in_executor(self._racers, work, *args)
        finally:
            self._end(item, loop.time() - item.since)

    def close(self) -> None:
        """Take no more work. A running piece is not waited for; waiting pieces are cancelled."""
        self._closed = True
        self._pieces.put(None)
        self._racers.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        """Do pieces of work until the end, in the compute thread."""
        while self._serve_one():
            self._served += 1

    def _serve_one(self) -> bool:
        """Do one piece of work. Return False at the end. It is a function of its own so that
        nothing of a piece is kept alive while the thread waits for the next."""
        piece = self._pieces.get()
        if piece is None:
            return False
        loop = piece.loop
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
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
        """On the loop: count the piece, and give its result to the caller."""
        self._count(item, taken)
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)


def _outcome(piece: _Piece) -> tuple[Any, BaseException | None]:
    """Return the result of a piece of work, or the error that it raised."""
    try:
        return piece.work(*piece.args), None
    except BaseException as error:  # noqa: BLE001  # the caller that awaits the work gets it
        return None, error


class InlineCompute(Compute):
    """Array work on the event loop, for the virtual clock: it is done at once, and its duration
    passes on the clock.

    `service_time(actor, label)` returns the seconds of a piece of work. Without it, work takes no
    time.
    """

    def __init__(self, service_time: Callable[[str, str], float] | None = None) -> None:
        super().__init__()
        self._service_time = service_time
        self._turn = asyncio.Lock()

    async def run(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        async with self._turn:
            return await self.race(actor, label, work, *args)

    async def race(self, actor: str, label: str, work: Callable[..., T], *args: Any) -> T:
        """Run work at once: the durations of races pass at the same time, while the work itself is
        done piece by piece."""
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
        """Let `seconds` pass."""
        await asyncio.sleep(seconds)

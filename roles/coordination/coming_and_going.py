"""Workers that come and go while a run goes on: the shell around `attendance` and
`sample_ledger`.

a worker has died -> its server abandons it -> its passes are given back to the others
it asks for a ticket in its next life -> it joins with the server's model -> it gets tickets
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from roles.attendance_messages import Abandon, Abandoned, Join
from roles.coordination.attendance import Attendance
from roles.coordination.pass_ledger import PassLedger
from roles.coordination.sample_ledger import Pass, SampleLedger
from roles.coordination.schedule import Schedule
from roles.learning.local_steps import StepsBySpeed
from roles.messages import TRAIN, Done, Rates
from runtime import Actor, ActorStopped, Envelope, Message, PeerLost

AGAIN_SECONDS = 0.05  # before the next life of the server is asked
REPORTS = 2  # about an iteration: the worker's, and the server's
R = TypeVar("R")


class ComingAndGoing:
    """The workers of one coordinator's run that come and go. `server` is the actor that they send
    their gains to, and that reports each iteration once it is merged. `rates` returns the present
    rates. `serve` is called when workers may get tickets again."""

    def __init__(
        self,
        actor: Actor,
        workers: Sequence[str],
        server: str,
        *,
        schedule: Schedule,
        ledger: PassLedger,
        rates: Callable[[], Rates],
        serve: Callable[[], Awaitable[None]],
        steps: StepsBySpeed | None = None,
    ) -> None:
        self._actor = actor
        self._server = server
        self._schedule = schedule
        self._ledger = ledger
        self._rates = rates
        self._serve = serve
        self._steps = steps
        self._attendance = Attendance(workers)
        self._samples = SampleLedger()
        self._joining: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<{self._attendance!r}, {self._samples!r}>"

    async def stop(self) -> None:
        """Wait for no worker that joins any longer."""
        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)

    # -- passes

    def again(self, at_most: int) -> Pass | None:
        """Up to `at_most` passes that were given back; None if there are none."""
        return self._samples.again(at_most)

    def handed_out(self, worker: str, given: Pass) -> None:
        """Note that a worker has these passes."""
        if worker in self._attendance:
            self._samples.hand_out(worker, given)

    def merged(self, number: int) -> None:
        """Note that the server has merged an iteration."""
        self._samples.merged(TRAIN, number)

    def ended(self, phase: str, number: int) -> None:
        """Note that all reports about a pass have arrived."""
        self._samples.ended(phase, number)

    # -- workers

    def asks(self, envelope: Envelope) -> None:
        """Note that a worker asks for a ticket."""
        self._attendance.asks(envelope.sender, envelope.incarnation)

    def is_former(self, envelope: Envelope) -> bool:
        """Whether a life of a worker that is over has sent this."""
        return self._attendance.is_former(envelope.sender, envelope.incarnation)

    def takes_part(self, worker: str) -> bool:
        """Whether a worker that asks for a ticket can get one. A worker in a new life joins
        first."""
        if number := self._attendance.joins(worker):
            task = asyncio.create_task(self._join(worker, number), name=f"{worker} joins")
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)
        return self._attendance.takes_part(worker)

    async def lost(self, message: PeerLost) -> None:
        """Have the server abandon the workers that have died. If the server has died, its next life
        hears of all that are missing."""
        lost = self._attendance.lost(message.actors)
        for worker in self._attendance.missing if self._server in message.actors else lost:
            await self._actor.tell(self._server, Abandon(worker=worker))

    def abandoned(self, message: Abandoned) -> Sequence[int]:
        """Give the passes of a worker back: the server has reported everything of it that it has
        merged. Returns the merged iterations whose last report will not come."""
        worker = message.worker
        if not self._attendance.abandoned(worker):
            return ()
        if self._steps is not None:
            self._steps.forget(worker)
        back = self._samples.give_back(worker)
        iterations = [number for phase, number in back.again if phase == TRAIN]
        for number in iterations:
            self._ledger.withdraw(number)
            self._schedule.again(number, REPORTS)
        done = self._schedule.completed
        self._actor.emit("left", iteration=done, worker=worker, given_back=len(iterations))
        return [number for _, number in back.merged]

    async def _join(self, worker: str, number: int) -> None:
        """Let a worker in its next life take the server's model over. Rates may change
        meanwhile."""
        before = None
        while before != (now := self._now()):
            before = now
            base_lr, momentum, batch = now
            wanted = Join(base_lr=base_lr, momentum=momentum, batch=batch)
            try:
                await self._actor.ask(worker, wanted, Done)
            except ActorStopped:
                return  # it has died again
        if self._attendance.joined(worker, number):
            if self._steps is not None:
                self._steps.joined(worker)
            self._actor.emit("joined", iteration=self._schedule.completed, worker=worker)
            await self._serve()

    def _now(self) -> tuple[float, float, int]:
        rates = self._rates()
        return rates.base_lr, rates.momentum, rates.batch

    async def ask(self, name: str, message: Message, answer: type[R]) -> R | None:
        """Ask an actor. Returns None if it is a worker that is away or dies meanwhile. If the
        server dies, its next life is asked."""
        while self._attendance.takes_part(name):
            try:
                return await self._actor.ask(name, message, answer)
            except ActorStopped:
                if name in self._attendance:
                    return None
                if name != self._server:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
        return None

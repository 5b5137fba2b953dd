"""The state of a run that the supervisor and its parts share: the life of each process, the roll,
the restarts that are left, and the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from runtime.cluster.lifecycle import LifeStage
from runtime.cluster.membership import Membership
from runtime.cluster.supervising.growing import Growing
from runtime.cluster.supervising.revival import Revival
from runtime.cluster.supervising.supervision import Liveness, Supervision
from runtime.cluster.watcher import Watcher
from runtime.errors import ConvoyError
from runtime.plan.topology import SUPERVISOR, Placement


class SupervisedRun:
    """One run under its supervisor. `began` is set when every actor has begun. `outcome` is done
    when the run is over: its result is None, or the error that ended the run. `now` returns the
    loop time in seconds."""

    def __init__(
        self, placement: Placement, liveness: Liveness, watcher: Watcher, now: Callable[[], float]
    ) -> None:
        self.placement = placement
        self.liveness = liveness
        self.watcher = watcher
        self.now = now
        self.roll = Membership(placement)
        self.supervision = Supervision((p.name for p in placement.processes), liveness, now())
        self.revival = Revival(placement)
        self.growing: Growing | None = None  # if actors may start others
        self.began = asyncio.Event()
        self.outcome: asyncio.Future[ConvoyError | None] = (
            asyncio.get_running_loop().create_future()
        )
        # process -> set when it has ended, as it was told to while the run goes on
        self.leaving: dict[str, asyncio.Event] = {}
        # process -> why it counts as dead, also if it later ends for another reason
        self.condemned: dict[str, str] = {}

    def __repr__(self) -> str:
        state = "over" if self.outcome.done() else "begun" if self.began.is_set() else "starting"
        return f"<supervised run: {state}, {self.roll!r}>"

    def event(self, event: str, fields: dict[str, Any]) -> None:
        """Report an event of the supervisor."""
        self.watcher.event(SUPERVISOR, event, fields)

    def end(self, error: ConvoyError | None) -> None:
        """End the run, unless it is over. `error` is its outcome."""
        if not self.outcome.done():
            self.outcome.set_result(error)
            if error is not None:
                self.watcher.failed(error)

    def fail(self, error: Exception) -> None:
        """End the run with an error that is a mistake of the runtime, unless it is over."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def is_halting(self, process: str) -> bool:
        """Whether the process is stopping. Its messages about its start were then sent before it
        learnt that the run is over, and it may have ended since."""
        return self.supervision.is_at(
            process, LifeStage.HALTING, *((LifeStage.GONE,) if self.outcome.done() else ())
        )

    def is_leaving(self, process: str) -> bool:
        """Whether a process ends or has ended as it was told to, while the run goes on."""
        return process in self.leaving or process not in {SUPERVISOR, *self.roll.specs}

    def restarts(self, process: str, *, killed: bool = False) -> bool:
        """Whether the process would be started again if it died now. In a later life that has not
        begun yet it would be, if it was `killed`; else its next life would fail as well."""
        runs = self.supervision.is_at(process, LifeStage.RUNNING)
        may = runs or (killed and self.began.is_set())
        return may and self.revival.allows(process) and not self.outcome.done()

    def may_stay_away(self, *processes: str) -> bool:
        """Whether the run would go on without these processes if they died now."""
        return (
            self.began.is_set()
            and not self.outcome.done()
            and self.revival.may_stay_away(*processes)
        )

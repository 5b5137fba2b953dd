"""The state of a run, derived from its events in this one place. The live table, `status`, the page
and the metrics use it, and choose their own words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# a request from outside or by the tests: the work under way is finished first
ENDING = ("winding down", "stopping early")
ENDS = ("finished", "handed over")  # the lead has done its work
STATES = ("starting", "running", "held", "stopping")  # of a living run
# of a run that is over; if several apply, the last in this tuple counts
RESULTS = ("killed", "stopped", "finished", "continued", "failed")

_STEPS = {"began": "running", "held": "held", "released": "running"}
_STEPS |= dict.fromkeys((*ENDING, *ENDS, "continued"), "stopping")
_TOLD = {"ended": "finished", **{name: name for name in RESULTS[1:]}}


@dataclass
class RunPhase:
    """The state of one run. `state` is one of STATES. `result` is the run's result if it ends now,
    one of RESULTS. `last_word` is the event with which the lead ended, one of ENDS."""

    state: str = "starting"
    result: str = "killed"
    last_word: str = ""

    def event(self, event: str) -> None:
        """Note the next event."""
        if self.state != "stopping":
            self.state = _STEPS.get(event, self.state)
        self.result = max(self.result, _TOLD.get(event, "killed"), key=RESULTS.index)
        if event in ENDS:
            self.last_word = event

    def status(self, *, lives: bool) -> str:
        """The word for the run: its state while it lives, its result when it is over or has
        failed."""
        return self.state if lives and self.result != "failed" else self.result


def after(events: Iterable[str]) -> RunPhase:
    """The phase of a run after these events. Only the order of `held` and `released` matters."""
    course = RunPhase()
    for event in events:
        course.event(event)
    return course

"""In which state a run is, by its events: the one place that decides. The live table, `status`, the
page and the metrics ask it and choose their words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# asked from outside, or by the tests: what is under way is finished
ENDING = ("winding down", "stopping early")
ENDS = ("finished", "handed over")  # the lead is done
STATES = ("starting", "running", "held", "stopping")  # while it lives
# when it does not; of several the last here counts
RESULTS = ("killed", "stopped", "finished", "continued", "failed")

_STEPS = {"began": "running", "held": "held", "released": "running"}
_STEPS |= dict.fromkeys((*ENDING, *ENDS, "continued"), "stopping")
_TOLD = {"ended": "finished", **{name: name for name in RESULTS[1:]}}


@dataclass
class RunPhase:
    """A run's. `state`: one of STATES; `result`: what it will have come to if it ends now, one of
    RESULTS; `last_word`: the lead's, one of ENDS."""

    state: str = "starting"
    result: str = "killed"
    last_word: str = ""

    def event(self, event: str) -> None:
        """The next one."""
        if self.state != "stopping":
            self.state = _STEPS.get(event, self.state)
        self.result = max(self.result, _TOLD.get(event, "killed"), key=RESULTS.index)
        if event in ENDS:
            self.last_word = event

    def status(self, *, lives: bool) -> str:
        """What it is called: its state while it lives, its result when it does not or has
        failed."""
        return self.state if lives and self.result != "failed" else self.result


def after(events: Iterable[str]) -> RunPhase:
    """The course of a run that has told these, in any order but for `held` and `released`."""
    course = RunPhase()
    for event in events:
        course.event(event)
    return course

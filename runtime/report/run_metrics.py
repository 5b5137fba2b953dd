"""The state of a run as metrics on the page of `up`; its readers can distinguish a finished run
from one that died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runtime.actors.metrics import Metrics
from runtime.cluster.lifecycle import Heartbeat, LifeStage
from runtime.cluster.warnings import WARNING
from runtime.errors import ConvoyError, LaunchError, ProgramFailed, RoleDied
from runtime.plan.topology import SUPERVISOR
from runtime.report.run_phase import ENDS, RESULTS, STATES, RunPhase

CAUSES: dict[type[ConvoyError], str] = {
    RoleDied: "died",
    ProgramFailed: "program",
    LaunchError: "launch",
}

Samples = Iterator[tuple[tuple[str, ...], float]]


class RunStateMetrics:
    """The state of a run and its outcome, derived from its events. A plain object without threads
    or sockets.

    `outcome`, `cause` and `by` are known at the end:

        finished   schedule                  by: the lead actor; all planned work is done
        finished   asked                     by: the signal or client that asked for an orderly end
        finished   ended                     by: the lead actor; ended at once, on request
        continued  scaled                    by: the supervisor; another run resumes from this one
        failed     died, program, launch     by: the process or actor that failed
    """

    def __init__(self, lead: str) -> None:
        self._lead = lead
        self._asked = ""
        self._course = RunPhase()
        self.outcome = self.cause = self.by = ""

    def __repr__(self) -> str:
        return f"<run state: {self.state}{f' ({self.cause}) by {self.by}' if self.outcome else ''}>"

    @property
    def state(self) -> str:
        """The state of the run while it lives, then its outcome."""
        return self.outcome or self._course.state

    def event(self, actor: str, event: str, fields: Mapping[str, Any]) -> None:
        """Note an event of the run."""
        if self.outcome:
            return
        if event == "winding down":
            self._asked = str(fields.get("reason", "somebody"))
        if event not in ENDS or actor == self._lead:
            self._course.event(event)

    def failed(self, error: ConvoyError) -> None:
        """Note the error that ended the run. Only the first counts."""
        if not self.outcome:
            cause = next(
                (name for kind, name in CAUSES.items() if isinstance(error, kind)), "error"
            )
            self.outcome = "failed"
            self.cause = cause
            self.by = error.by or SUPERVISOR

    def ended(self) -> None:
        """Note that the run is over. If no error was noted before, it ended as intended."""
        if self.outcome:
            return
        if self._course.result == "continued":
            self.outcome = "continued"
            self.cause = "scaled"
            self.by = SUPERVISOR
        else:
            self.outcome = "finished"
            self.by = self._asked or self._lead
            self.cause = (
                "asked" if self._asked else "schedule" if self._course.last_word else "ended"
            )


class RunMetrics:
    """A watcher that shows one run on the page of `up`. `stages` returns process -> stage of its
    life. For `restarts` see Site. `program` and `directory` are shown as labels."""

    def __init__(
        self,
        metrics: Metrics,
        lead: str,
        stages: Callable[[], Mapping[str, str]],
        restarts: int,
        *,
        program: str,
        directory: str,
    ) -> None:
        self._state = RunStateMetrics(lead)
        self._stages = stages
        me = {"role": SUPERVISOR, "actor": SUPERVISOR}
        self._warnings = metrics.counter(
            "warnings", "Warnings shown for the run (page of `up`).", **me
        )
        metrics.gauge(
            "run_restarts",
            (
                "Consecutive runs of this `up` that died before this one began; "
                "0 again after a scaling (page of `up`)."
            ),
            **me,
        ).set(restarts)
        metrics.info(
            "run",
            "1 (page of `up`).",
            **me,
            program=program,
            directory=directory,
            lead=lead,
        )
        labels = tuple(me)
        metrics.reading(
            "run_state",
            (
                "1 for `starting`, `running`, `held`, `stopping`, `finished`, "
                "`continued` or `failed`, 0 for the others (page of `up`)."
            ),
            (*labels, "state"),
            self._states,
        )
        text = "1 from the end of the run on; see the table of outcomes (page of `up`)."
        metrics.reading(
            "run_outcome_info", text, (*labels, "outcome", "cause", "by"), self._outcome
        )
        text = (
            "Number of processes that are `starting`, `greeted`, `ready`, `running`, "
            "`halting`, `gone` (page of `up`)."
        )
        metrics.reading("run_processes", text, (*labels, "stage"), self._processes)

    def __repr__(self) -> str:
        return f"<metrics of a run: {self._state!r}>"

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """Count a warning, and note the new state of the run."""
        if event == WARNING:
            self._warnings.inc()
        self._state.event(actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """Ignore it: a heartbeat changes no state."""

    def failed(self, error: ConvoyError) -> None:
        """Note the error that ended the run."""
        self._state.failed(error)

    def ended(self) -> None:
        """Note that the run is over."""
        self._state.ended()

    # -- in the thread of the page

    def _states(self) -> Samples:
        now = self._state.state
        for state in (*STATES, *RESULTS[2:]):  # killed or ended at once: no state
            yield (SUPERVISOR, SUPERVISOR, state), float(state == now)

    def _outcome(self) -> Samples:
        if self._state.outcome:
            yield (
                (SUPERVISOR, SUPERVISOR, self._state.outcome, self._state.cause, self._state.by),
                1.0,
            )

    def _processes(self) -> Samples:
        counted = Counter(self._stages().values())
        for stage in LifeStage:
            yield (SUPERVISOR, SUPERVISOR, stage.value), counted[stage.value]

"""How a run stands, as metrics on the page of `up`: whoever reads them can tell what has finished
from what died."""

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
    """How a run stands, and how it has ended, by the events of it: plain decisions.

    `outcome`, `cause` and `by` are known at the end:

        finished   schedule                  by: the lead actor, which has done all that was to be
                                             done
        finished   asked                     by: who asked for a good end, a signal or a client
        finished   ended                     somebody ended it without waiting for anything
        continued  scaled                    by: the supervisor; another run goes on from it
        failed     died, program, launch     by: the process or actor that it befell
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
        """A state of `course`, or the outcome."""
        return self.outcome or self._course.state

    def event(self, actor: str, event: str, fields: Mapping[str, Any]) -> None:
        """Something has happened."""
        if self.outcome:
            return
        if event == "winding down":
            self._asked = str(fields.get("reason", "somebody"))
        if event not in ENDS or actor == self._lead:
            self._course.event(event)

    def failed(self, error: ConvoyError) -> None:
        """What ended it; the first counts."""
        if not self.outcome:
            cause = next(
                (name for kind, name in CAUSES.items() if isinstance(error, kind)), "error"
            )
            self.outcome = "failed"
            self.cause = cause
            self.by = error.by or SUPERVISOR

    def ended(self) -> None:
        """It is over; nothing has ended it but who wanted that."""
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
    """A watcher of one run that shows it on the page of `up`. `stages`: process -> where it is in
    its life; `restarts`: see Site; `program` and `directory` are shown as labels."""

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
            "warnings", "Warnings told of the run (page of `up`).", **me
        )
        metrics.gauge(
            "run_restarts",
            (
                "Runs of this `up` that died one after another before this one "
                "began; 0 again once it was scaled (page of `up`)."
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
        text = "1, from the end of the run on: see the table of outcomes (page of `up`)."
        metrics.reading(
            "run_outcome_info", text, (*labels, "outcome", "cause", "by"), self._outcome
        )
        text = (
            "Processes that are `starting`, `greeted`, `ready`, `running`, "
            "`halting`, `gone` (page of `up`)."
        )
        metrics.reading("run_processes", text, (*labels, "stage"), self._processes)

    def __repr__(self) -> str:
        return f"<metrics of a run: {self._state!r}>"

    def event(self, actor: str, event: str, fields: dict[str, Any]) -> None:
        """See Watcher."""
        if event == WARNING:
            self._warnings.inc()
        self._state.event(actor, event, fields)

    def beat(self, process: str, heartbeat: Heartbeat) -> None:
        """A heartbeat changes no state."""

    def failed(self, error: ConvoyError) -> None:
        """See Watcher."""
        self._state.failed(error)

    def ended(self) -> None:
        """The run is over."""
        self._state.ended()

    # -- in the thread of the page

    def _states(self) -> Samples:
        now = self._state.state
        for state in (*STATES, *RESULTS[2:]):  # who is killed or ended at once says nothing
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

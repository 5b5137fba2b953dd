"""The state and the outcome of a run: derived from its events, and shown on the page of `up`."""

from __future__ import annotations

import pytest

from runtime.actors.metrics import Metrics
from runtime.errors import ConfigError, ConvoyError, LaunchError, ProgramFailed, RoleDied, by
from runtime.report.run_metrics import RunMetrics, RunStateMetrics


def after(*told: tuple[str, str], error: ConvoyError | None = None) -> RunStateMetrics:
    """The state of a run with the lead `lead` after these events and its end."""
    state = RunStateMetrics("lead")
    for actor, event in told:
        state.event(actor, event, {"reason": "SIGINT"} if event == "winding down" else {})
    if error is not None:
        state.failed(error)
    state.ended()
    return state


def test_a_run_is_starting_running_held_running_stopping() -> None:
    state = RunStateMetrics("lead")
    seen = []
    for event in ("process", "began", "held", "progress", "released", "winding down", "finished"):
        state.event("lead", event, {})
        seen.append(state.state)
    assert seen == ["starting", "running", "held", "held", "running", "stopping", "stopping"]
    assert state.outcome == ""


def test_a_run_that_its_tests_end_early_counts_as_finished_by_schedule() -> None:
    state = RunStateMetrics("lead")
    for event in ("began", "stopping early"):
        state.event("lead", event, {})
    assert state.state == "stopping"
    ended = after(("lead", "stopping early"), ("lead", "finished"))
    assert (ended.outcome, ended.cause, ended.by) == ("finished", "schedule", "lead")


def test_a_run_is_stopping_once_its_lead_has_finished() -> None:
    state = RunStateMetrics("lead")
    for actor in ("other", "lead"):
        state.event("supervisor", "began", {})
        state.event(actor, "finished", {})
        assert state.state == ("running" if actor == "other" else "stopping")


@pytest.mark.parametrize(
    ("told", "error", "outcome"),
    [
        ([("lead", "began"), ("lead", "finished")], None, ("finished", "schedule", "lead")),
        ([("lead", "winding down"), ("lead", "finished")], None, ("finished", "asked", "SIGINT")),
        (
            [("lead", "handed over"), ("supervisor", "continued")],
            None,
            ("continued", "scaled", "supervisor"),
        ),
        ([("supervisor", "continued")], by("w-1", RoleDied("w-1 died")), ("failed", "died", "w-1")),
        ([("lead", "began"), ("other", "finished")], None, ("finished", "ended", "lead")),
        ([("lead", "began")], by("w-1", RoleDied("w-1 died")), ("failed", "died", "w-1")),
        ([("lead", "finished")], by("lead", ProgramFailed("nan")), ("failed", "program", "lead")),
        ([], LaunchError("no port"), ("failed", "launch", "supervisor")),
        ([], ConfigError(["wrong"]), ("failed", "error", "supervisor")),
    ],
)
def test_an_end_has_an_outcome_a_cause_and_the_name_of_its_originator(
    told: list[tuple[str, str]], error: ConvoyError | None, outcome: tuple[str, str, str]
) -> None:
    state = after(*told, error=error)
    assert (state.outcome, state.cause, state.by) == outcome
    assert state.state == outcome[0]
    state.event("lead", "began", {})  # later events change nothing
    state.failed(RoleDied("too late"))
    assert (state.outcome, state.cause, state.by) == outcome


def test_the_page_has_one_state_and_an_outcome_at_the_end() -> None:
    metrics = Metrics()
    shown = RunMetrics(
        metrics,
        "lead",
        lambda: {"a": "running", "b": "running", "c": "gone"},
        2,
        program="p",
        directory="d",
    )
    shown.event("a", "warning", {"text": "hot"})
    shown.event("supervisor", "began", {})
    me = 'actor="supervisor",role="supervisor"'
    page = metrics.text().splitlines()
    assert f'convoy_run_state{{{me},state="running"}} 1.0' in page
    assert f'convoy_run_state{{{me},state="starting"}} 0.0' in page
    assert f'convoy_run_processes{{{me},stage="running"}} 2.0' in page
    assert f'convoy_run_processes{{{me},stage="ready"}} 0.0' in page
    assert f"convoy_run_restarts{{{me}}} 2.0" in page
    assert f"convoy_warnings_total{{{me}}} 1.0" in page
    assert not any(line.startswith("convoy_run_outcome_info{") for line in page)
    shown.failed(by("a", RoleDied("a died")))
    shown.ended()
    said = (
        'convoy_run_outcome_info{actor="supervisor",by="a",cause="died",outcome="failed",role="supervisor"} '
        ""
        ""
        "1.0"
    )
    assert said in metrics.text().splitlines()

"""The state of a run by its events: one table, from which all commands and pages read it."""

from __future__ import annotations

import itertools

import pytest

from runtime.report.run_phase import after


@pytest.mark.parametrize(
    ("told", "state", "result"),
    [
        ("", "starting", "killed"),
        ("began", "running", "killed"),
        ("began held", "held", "killed"),
        ("began held released", "running", "killed"),
        ("began winding_down", "stopping", "killed"),
        ("began stopping_early", "stopping", "killed"),
        ("began winding_down released", "stopping", "killed"),
        ("began finished", "stopping", "finished"),
        ("began finished ended", "stopping", "finished"),
        ("began ended", "running", "finished"),
        ("began stopped", "running", "stopped"),
        ("began finished stopped", "stopping", "finished"),
        ("began handed_over continued", "stopping", "continued"),
        ("began handed_over continued ended", "stopping", "continued"),
        ("began finished failed", "stopping", "failed"),
        ("failed", "starting", "failed"),
    ],
)
def test_the_events_of_a_run_determine_its_state_and_its_result(
    told: str, state: str, result: str
) -> None:
    course = after(event.replace("_", " ") for event in told.split())
    assert (course.state, course.result) == (state, result)


def test_a_failed_run_is_called_failed_also_while_its_processes_end() -> None:
    assert after(["began", "failed"]).status(lives=True) == "failed"
    assert after(["began", "finished"]).status(lives=True) == "stopping"
    assert after(["began", "finished"]).status(lives=False) == "finished"


def test_the_order_in_which_a_run_is_read_does_not_matter() -> None:
    for told in itertools.permutations(("began", "stopping early", "finished", "failed")):
        course = after(told)
        assert (course.state, course.result, course.last_word) == ("stopping", "failed", "finished")

"""In which state a run is, by what it has told: one table, which everybody who shows a run asks."""

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
def test_what_a_run_has_told_says_how_it_stands_and_what_it_has_come_to(
    told: str, state: str, result: str
) -> None:
    course = after(event.replace("_", " ") for event in told.split())
    assert (course.state, course.result) == (state, result)


def test_a_run_that_has_failed_is_called_so_also_while_its_processes_end() -> None:
    assert after(["began", "failed"]).status(lives=True) == "failed"
    assert after(["began", "finished"]).status(lives=True) == "stopping"
    assert after(["began", "finished"]).status(lives=False) == "finished"


def test_the_order_in_which_a_run_is_read_does_not_matter() -> None:
    for told in itertools.permutations(("began", "stopping early", "finished", "failed")):
        course = after(told)
        assert (course.state, course.result, course.last_word) == ("stopping", "failed", "finished")

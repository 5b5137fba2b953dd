"""Deaths at chosen points of the work, and many roles that start and end: the parts of the chaos
benchmark, run once or three times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos.points import points
from benchmarks.chaos.starts import come_and_gone
from benchmarks.chaos.trials import HEADERS, Trials
from benchmarks.helpers.report import Record


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    record = Record("of a test")
    record.table("harm", *HEADERS)
    return Trials(record, tmp_path, "1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_dies_at_any_point_of_its_work_is_named_and_the_losses_stay_the_same(
    trials: Trials,
) -> None:
    points(trials, 1)
    assert trials.record.status == "running", trials.record.notes
    assert [row[1:4] for row in trials.record.tables[0].rows] == [[6, 6, 0]] * 4


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_32_roles_start_and_end_again_and_again_and_leave_nothing(trials: Trials) -> None:
    harm = come_and_gone(trials, 3)
    assert (harm.done, harm.happened, harm.failures) == (3, 3, [])

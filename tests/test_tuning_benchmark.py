"""The benchmark of the queueing model: its parts in small, and what it makes of figures that miss."""

from __future__ import annotations

import pytest

from benchmarks import tuning
from benchmarks.report import Record
from runtime.queueing.estimates import Estimate


@pytest.mark.slow
def test_every_way_of_knowing_a_time_agrees() -> None:
    record = Record("r")
    tuning.formulas(record, cycles=4_000)
    assert (record.status, record.notes) == ("running", [])
    assert [len(table.rows) for table in record.tables] == [10, 10, 12]


def test_a_figure_outside_its_interval_is_told_and_fails() -> None:
    record = Record("r")
    record.table("t")
    tuning.compare(record, "M/M/1", 0.5, 1.0, Estimate(1.01, 0.1))
    assert record.status == "running"
    tuning.compare(record, "M/M/1", 0.5, 1.0, Estimate(1.5, 0.1))
    assert record.status == "failed"
    assert record.notes == ["M/M/1 at 0.5: events 1.5 +- 0.1 s, textbook 1 s"]

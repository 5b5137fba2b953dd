"""The benchmark of encrypted links: its part with strangers, at a small size."""

from __future__ import annotations

import pytest

from benchmarks.encryption import strangers as encryption_strangers
from benchmarks.helpers.machines import Refused
from benchmarks.helpers.report import Record
from benchmarks.helpers.strangers import STRANGERS


@pytest.mark.slow
def test_a_run_is_timed_while_strangers_try_to_connect_and_none_gets_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {name: STRANGERS[name] for name in ("null", "replayed")}
    for name, value in {
        "STRANGERS": few,
        "TRIES": 4,
        "SECONDS": 0.5,
        "WARM": 1,
        "MOST": 100.0,
    }.items():
        monkeypatch.setattr(encryption_strangers, name, value)
    record = Record("of a test")
    try:
        encryption_strangers.beside_strangers(record, 1)
    except Refused as why:
        pytest.skip(str(why))
    assert record.status == "running", record.notes
    (table,) = record.tables
    assert [(row[0], row[-1]) for row in table.rows] == [("null", 0), ("replayed", 0)]
    assert all(milliseconds > 0 for _, *pace, _, _ in table.rows for milliseconds in pace)

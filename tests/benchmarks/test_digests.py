"""Digests: the hash of a journal says nothing of where a run lay, or when it was."""

from __future__ import annotations

from pathlib import Path

from benchmarks.digests import without_places

LINE = '{"event": "resumed", "checkpoint": "%s/checkpoint-0000020.safetensors", "in": "%s"}'


def journal(top: Path, first: str, second: str) -> str:
    """Of a run that goes on from another below the same folder."""
    (top / "0" / first).mkdir(parents=True)
    (top / "42" / second).mkdir(parents=True)
    return without_places(LINE % (top / "0" / first, second), top / "42")


def test_a_run_that_goes_on_from_another_has_the_same_journal_at_another_place_and_time(
    tmp_path: Path,
) -> None:
    once = journal(tmp_path / "a", "20260101-000000-roles", "20260101-000009-roles")
    again = journal(tmp_path / "b", "20270101-120000-roles", "20270101-120009-roles")
    assert once == again == LINE % ("RUN", "RUN")

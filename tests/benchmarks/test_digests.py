"""Digests: the hash of a journal does not depend on the place and time of the run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.digests import without_places

LINE = '{"event": "resumed", "checkpoint": "%s/checkpoint-0000020.safetensors", "in": "%s"}'


def journal(top: Path, first: str, second: str) -> str:
    """The journal of a run that resumes from another run in the same folder, without its places."""
    (top / "0" / first).mkdir(parents=True)
    (top / "42" / second).mkdir(parents=True)
    return without_places(LINE % (top / "0" / first, second), top / "42")


def test_a_run_that_resumes_from_another_has_the_same_journal_at_another_place_and_time(
    tmp_path: Path,
) -> None:
    once = journal(tmp_path / "a", "20260101-000000-roles", "20260101-000009-roles")
    again = journal(tmp_path / "b", "20270101-120000-roles", "20270101-120009-roles")
    assert once == again == LINE % ("RUN", "RUN")

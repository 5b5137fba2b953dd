"""The number of threads that read data in a process: the cores that its computing threads leave
free."""

from __future__ import annotations

import pytest

from roles.learning import backends
from roles.learning.backends import MOST_READERS, reader_threads


@pytest.mark.parametrize(
    ("free", "threads", "expected"),
    [
        ("3", "1", 3),
        ("0", "4", 1),
        ("100", "1", MOST_READERS),
        (None, "4", 2),
        (None, "6", 1),
        (None, "9", 1),
        ("", "5", 1),
    ],
)
def test_a_process_reads_with_the_cores_that_are_left_and_with_one_thread_at_least(
    monkeypatch: pytest.MonkeyPatch, free: str | None, threads: str, expected: int
) -> None:
    monkeypatch.setattr(backends, "usable", lambda: list(range(6)))
    monkeypatch.setenv("CONVOY_THREADS", threads)
    if free is None:
        monkeypatch.delenv("CONVOY_FREE_CORES", raising=False)
    else:
        monkeypatch.setenv("CONVOY_FREE_CORES", free)
    assert reader_threads() == expected

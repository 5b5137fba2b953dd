"""The number of threads that read data in a process: the cores that its computing threads leave
free."""

from __future__ import annotations

import pytest

from roles.learning import backends
from roles.learning.backends import MOST_READERS, reader_threads


@pytest.mark.parametrize(
    ("free", "threads", "on_gpu", "expected"),
    [
        ("3", "1", False, 3),
        ("0", "4", False, 1),
        ("0", "4", True, 3),  # one thread starts the kernels
        ("2", "1", True, 2),
        ("0", "1", True, 1),
        ("100", "1", False, MOST_READERS),
        (None, "4", False, 2),
        (None, "4", True, 5),
        (None, "6", False, 1),
        (None, "9", False, 1),
        ("", "5", False, 1),
    ],
)
def test_a_process_reads_with_the_cores_that_are_left_and_with_one_thread_at_least(
    monkeypatch: pytest.MonkeyPatch, free: str | None, threads: str, on_gpu: bool, expected: int
) -> None:
    monkeypatch.setattr(backends, "usable", lambda: list(range(6)))
    monkeypatch.setenv("CONVOY_THREADS", threads)
    if free is None:
        monkeypatch.delenv("CONVOY_FREE_CORES", raising=False)
    else:
        monkeypatch.setenv("CONVOY_FREE_CORES", free)
    assert reader_threads(on_gpu=on_gpu) == expected

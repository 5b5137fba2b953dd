"""Fixtures of the journeys."""

from __future__ import annotations

import pytest


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small actors on one event loop, none with threads of its own; as the processes of a run with one thread."""
    monkeypatch.setenv("CONVOY_THREADS", "1")

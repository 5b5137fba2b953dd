"""Fixtures of the journeys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.operated import Operated, operated


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one thread for the actors' array work. Many small actors share one event loop, and the
    processes of the compared runs have one thread as well."""
    monkeypatch.setenv("CONVOY_THREADS", "1")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """One live run for all tests of a file."""
    with operated(tmp_path_factory.mktemp("operated")) as run:
        yield run

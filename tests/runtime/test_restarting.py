"""Runs that follow one another in one `up`: what the ended ones leave in its memory."""

from __future__ import annotations

import gc
import io
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runtime.errors import RoleDied
from runtime.recovery import restarting
from runtime.report.console import RunConsole
from runtime.runs.checking import check
from tests.chaos.recovering import cluster_of

RESTARTS = 4


class Dying:
    """A run that a death ends at once, in a circle as real ones are."""

    asked_to_end, has_begun, metrics_url, report_url, operators_at, healing = False, True, "", "", "", None

    def __init__(self, *given: object, **named: Any) -> None:
        self.directory, self.itself = Path("runs"), self

    async def start(self) -> None:
        pass

    async def ended(self) -> RoleDied:
        return RoleDied("died, for the test")


@pytest.fixture
def _unwatched() -> Iterator[None]:
    """Python looks for no circles by itself, as in a process whose `OBJECTS` are far away."""
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("_unwatched")
async def test_a_run_that_has_ended_leaves_nothing_in_memory_when_others_have_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[weakref.ref[Dying]] = []

    def run(*given: object, **named: Any) -> Dying:
        one = Dying(*given, **named)
        made.append(weakref.ref(one))
        return one

    monkeypatch.setattr(restarting, "Run", run)
    checked = check(cluster_of(tmp_path, "sync", RESTARTS))
    console = RunConsole(Console(file=io.StringIO()), live=False)
    runs = restarting.Restarting(checked, console, None, None)
    assert isinstance(await runs.ended(), RoleDied)
    assert len(made) == 1 + RESTARTS
    assert [one() for one in made[:-1]] == [None] * RESTARTS

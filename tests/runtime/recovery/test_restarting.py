"""Runs that follow one another in one `up`: the memory that ended runs leave, and the choice of
machines, ends and scales for the next run.
"""

from __future__ import annotations

import asyncio
import gc
import io
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from runtime.cluster.clients import Scale
from runtime.errors import ConvoyError, RoleDied, with_silent
from runtime.plan.topology import Placement
from runtime.recovery import next_run, restarting
from runtime.report.console import RunConsole
from runtime.runs.checking import check
from tests.chaos.recovering import cluster_of

RESTARTS = 4


class Dying:
    """A run that a death ends at once. It refers to itself, as real runs do, so only the cycle
    collector frees it.
    """

    asked_to_end = False
    has_begun = True
    metrics_url = ""
    report_url = ""
    operators_at = ""
    healing = None

    def __init__(self, *given: object, **named: Any) -> None:
        self.directory = Path("runs")
        self.itself = self

    async def start(self) -> None:
        pass

    async def ended(self) -> RoleDied:
        return RoleDied("died, for the test")


@pytest.fixture
def _unwatched() -> Iterator[None]:
    """Switch off the automatic collection of cycles, as in a process that has not yet allocated
    `OBJECTS` objects.
    """
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("_unwatched")
async def test_an_ended_run_is_freed_from_memory_once_others_have_followed(
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


MACHINES = "".join(
    (f'[[machine]]\nname = "{name}"\naddress = "127.0.0.{at}"\n')
    for at, name in enumerate("abc", 1)
)


@pytest.mark.parametrize(
    ("wanted", "silent", "places", "told"),
    [
        ("reachable", {"b"}, "ac", "goes on without machine 'b'"),
        ("reachable", {"b", "c"}, "a", "goes on without machine 'b' and machine 'c'"),
        (
            "reachable",
            {"a", "b", "c"},
            "abc",
            ("the run waits for machine 'a' and machine 'b' and machine 'c': no mac"),
        ),
        ("reachable", set(), "abc", ""),
        ("all", {"b"}, "abc", ""),
    ],
)
async def test_the_next_run_skips_machines_that_fell_silent_if_it_can_do_without_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wanted: str,
    silent: set[str],
    places: str,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[set[str]] = []

    class Silenced(Dying):
        def __init__(self, placement: Placement, *given: object, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append({spec.machine for spec in placement.processes})

        async def ended(self) -> RoleDied:
            died = with_silent(silent, await super().ended())
            assert died is not None
            return died

    monkeypatch.setattr(restarting, "Run", Silenced)
    checked = check(cluster_of(tmp_path, "firecaffe", 1, f'machines = "{wanted}"\n{MACHINES}'))
    shown = io.StringIO()
    console = RunConsole(Console(file=shown, width=200), live=False)
    assert isinstance(await restarting.Restarting(checked, console, None, None).ended(), RoleDied)
    assert made == [set("abc"), set(places)]
    assert told in shown.getvalue() + capsys.readouterr().err


async def test_a_request_to_end_before_the_next_run_has_started_winds_that_run_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`down` and Ctrl-C may come at any moment, also when the next run is made but not yet
    started.
    """
    monkeypatch.chdir(tmp_path)
    made: list[Early] = []

    class Early(Dying):
        def __init__(self, *given: object, **named: Any) -> None:
            super().__init__(*given, **named)
            self.is_started = False
            self.wound_down = asyncio.Event()
            made.append(self)

        async def start(self) -> None:
            if len(made) > 1:
                with suppress(ConvoyError):  # signal handlers do this
                    await runs.wind_down("for the test")
            self.is_started = True

        async def wind_down(self, reason: str = "") -> None:
            if not self.is_started:
                raise ConvoyError("this run was not started")
            self.wound_down.set()

        async def ended(self) -> Any:
            if len(made) == 1:
                return await super().ended()
            return await self.wound_down.wait() and None

    monkeypatch.setattr(restarting, "Run", Early)
    checked = check(cluster_of(tmp_path, "sync", RESTARTS))
    runs = restarting.Restarting(
        checked, RunConsole(Console(file=io.StringIO()), live=False), None, None
    )
    assert await asyncio.wait_for(runs.ended(), 10) is None
    assert len(made) == 2


def test_the_latest_scale_counts_more_than_the_scale_of_the_run_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This holds also for the number in cluster.toml, although `resumed` keeps the number of the
    run before.
    """

    class Program:
        @staticmethod
        def resumed(config: object, options: int, place: Path) -> tuple[int, list[str]]:
            return (3, ["scaled     as it was"]) if options == 2 else (options, [])

        @staticmethod
        def scaled(config: object, options: int, workers: int, groups: int) -> int:
            return workers

        @staticmethod
        def plan(config: object, options: int) -> int:
            return options

    monkeypatch.setattr(next_run, "planned", lambda program, *given: program.plan(*given))
    monkeypatch.setattr(next_run, "settled", lambda checked, chosen: chosen.options)
    checked: Any = SimpleNamespace(loaded=SimpleNamespace(config=None, options=2, program=Program))
    place = Path()
    assert next_run.goes_on(checked, place, wish=Scale(workers=2), left=3) == (2, [])
    assert next_run.goes_on(checked, place, wish=Scale(without=("b",)), left=3) == (3, [])
    assert next_run.goes_on(checked, place) == (3, ["scaled     as it was"])

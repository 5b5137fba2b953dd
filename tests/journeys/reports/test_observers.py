"""A program's observer receives the durations of work, wherever the actors of a run live, and
cannot end the run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import runtime
from runtime import Event
from tests.helpers.observed import naps
from tests.helpers.support import get

SECONDS = 2.6  # long enough that reports once a second come twice


def observed(tmp_path: Path, house: str, observer: str, seconds: float = SECONDS) -> list[Event]:
    """All events of a run with an observer."""
    (tmp_path / "times.json").write_text('{"*/*": 0.2}')
    virtual = {"clock": "virtual", "service_times": str(tmp_path / "times.json")}
    settings: dict[str, Any] = (
        {"simulation": virtual} if house == "virtual" else {"processes": house}
    )
    found: list[Event] = []
    runtime.run(naps(seconds, observer), on_event=found.append, directory=tmp_path, **settings)
    return found


@pytest.mark.few("here")
@pytest.mark.parametrize("house", ["one-per-actor", "here", "virtual"])
def test_an_observer_receives_the_sums_of_all_work_and_the_events_it_asked_for(
    tmp_path: Path, house: str
) -> None:
    events = observed(tmp_path, house, "echo")
    heard = [event for event in events if event.name == "heard"]
    assert {(event.actor, event["who"]) for event in heard} == {("supervisor", "worker")}
    # how often in real seconds depends on the load of the machine
    assert len(heard) >= 2 or house != "virtual"
    counts = [event["nap"][0] for event in heard]
    assert counts == sorted(set(counts))
    length = 0.2 if house == "virtual" else 0.01
    for event in heard:
        count, seconds, squares = event["nap"]
        assert seconds >= 0.999 * count * length
        assert squares >= 0.999 * seconds**2 / count
        assert event["own"][1] == pytest.approx(event["own"][0] * 0.5)
        assert abs(event["own"][0] - count) <= 1
    agents = [event for event in events if event.name == "processor time"]
    assert {event["who"] for event in agents} == (
        {"worker/agent"} if house == "one-per-actor" else set()
    )
    # hundredths of a second are counted
    assert all(0.0 <= event["processor"][1] < 5.0 for event in agents)
    of = [
        (event.actor, event["who"], event["what"]) for event in events if event.name == "heard of"
    ]
    assert of == [("supervisor", "worker", "begun")]
    assert (events[-1].actor, events[-1].name) == ("worker", "slept")


def test_on_virtual_time_an_observer_reports_the_same_every_time(tmp_path: Path) -> None:
    first, second = (
        [str(event) for event in observed(tmp_path, "virtual", "echo", 12.0)] for _ in range(2)
    )
    assert first == second
    assert len([line for line in first if " heard " in line]) >= 10


@pytest.mark.few("virtual")
@pytest.mark.parametrize("house", ["one-per-actor", "virtual"])
def test_an_error_of_an_observer_is_reported_once_and_ends_no_run(
    tmp_path: Path, house: str
) -> None:
    events = observed(tmp_path, house, "broken")
    texts = [event["text"] for event in events if event.name == "warning"]
    (text,) = texts
    assert text.startswith("the run goes on without its observer: tests/helpers/observed.py:")
    assert text.endswith("in worked: ZeroDivisionError: no work at all")
    assert events[-1].name == "slept"


def test_an_observer_that_cannot_be_made_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    events = observed(tmp_path, "virtual", "unborn")
    texts = [event["text"] for event in events if event.name == "warning"]
    (text,) = texts
    assert text.startswith("the run goes on without its observer: tests/helpers/observed.py:")
    assert text.endswith("in observer: LookupError: no such observer")
    assert events[-1].name == "slept"


def test_a_program_may_have_no_observer_for_a_run(tmp_path: Path) -> None:
    assert {event.actor for event in observed(tmp_path, "virtual", "")} == {"worker"}


async def test_metrics_of_an_observer_are_served_with_the_metrics_of_up(
    tmp_path: Path,
) -> None:
    async with runtime.launch(naps(60.0, "echo"), directory=tmp_path) as run:
        async for event in run.events():
            if event.name == "heard":
                break
        page = await asyncio.to_thread(get, run.metrics_url.replace("/sd", "/metrics"))
        await run.end_now()
    (line,) = re.findall(r"^convoy_naps\{(.*)\} (\S+)$", page, re.MULTILINE)
    assert 'worker="worker"' in line[0]
    assert float(line[1]) == event["nap"][0]

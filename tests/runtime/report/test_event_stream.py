"""The stream of a run's events: its order, late and slow readers, and its end."""

from __future__ import annotations

import asyncio

from runtime.errors import RoleDied
from runtime.report.event_stream import Event, Events


def made(keep: int = 100) -> Events:
    """A stream whose events are a second apart."""
    times = iter(range(1000))
    return Events(lambda: float(next(times)), keep)


async def read(events: Events) -> list[Event]:
    return [event async for event in events.stream()]


async def test_a_reader_waits_for_events_and_ends_with_the_run() -> None:
    events = made()
    events.event("a", "one", {"x": 1})
    reader = asyncio.create_task(read(events))
    await asyncio.sleep(0)
    events.event("b", "two", {})
    await asyncio.sleep(0)
    events.failed(RoleDied("b is gone"))
    events.end()
    found = await reader
    assert [(event.time, event.actor, event.name) for event in found] == [
        (0.0, "a", "one"),
        (1.0, "b", "two"),
        (2.0, "supervisor", "failed"),
    ]
    assert found[0]["x"] == 1
    assert found[2].fields == {"error": "b is gone", "exit_code": 4}
    assert await read(events) == found


async def test_a_reader_that_is_too_late_learns_how_many_events_it_missed() -> None:
    events = made(keep=3)
    for number in range(5):
        events.event("a", f"event {number}", {})
    reader = events.stream()
    assert (await anext(reader)).fields == {"events": 2}
    assert (await anext(reader)).name == "event 2"
    for number in range(5, 9):
        events.event("a", f"event {number}", {})
    events.end()
    assert [event.name async for event in reader] == ["missed", "event 6", "event 7", "event 8"]


def test_the_latest_event_of_each_name_is_kept_in_the_order_of_arrival() -> None:
    events = made(keep=1)
    for name, value in (("a", 1), ("b", 2), ("a", 3)):
        events.event("lead", name, {"value": value})
    assert [(event.name, event["value"]) for event in events.last.values()] == [("b", 2), ("a", 3)]


def test_an_event_as_text_is_the_line_that_the_console_would_show() -> None:
    assert str(Event(1.5, "lead", "test", {"loss": 0.123456})) == (
        "    1.50  lead           test       loss 0.1235"
    )

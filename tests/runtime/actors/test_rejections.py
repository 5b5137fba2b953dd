"""Rejected messages: the first few are logged one by one, and the others are counted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from runtime.actors.rejections import LOGGED, PERIOD, Rejections
from runtime.errors import MessageError
from runtime.simulation.clock import run_virtual


def told(records: list[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in records]


def test_the_first_rejections_are_logged_one_by_one_and_the_others_as_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def flooded() -> None:
        rejections = Rejections(logging.getLogger("convoy.p"))
        for number in range(10_000):
            rejections.note(
                "mallory" if number % 4 else "trudy", MessageError("bad_header", f"no {number}")
            )
        assert repr(rejections) == f"<rejections: {LOGGED} logged, {10_000 - LOGGED} more counted>"
        assert len(caplog.records) == LOGGED
        await asyncio.sleep(PERIOD + 1)
        rejections.note("trudy", MessageError("late", "again"))
        await asyncio.sleep(PERIOD + 1)

    run_virtual(flooded())
    lines = told(caplog.records)
    assert len(lines) == LOGGED + 2
    assert lines[0] == "rejected a message of trudy: bad_header: no 0"
    each = (
        f"{7500 - LOGGED * 3 // 4} of mallory (bad_header), {2500 - LOGGED // 4} of trudy "
        "(bad_header)"
    )
    assert lines[LOGGED] == f"rejected {10_000 - LOGGED} more messages: {each}"
    assert lines[LOGGED + 1] == "rejected a message of trudy: late: again"


def test_rejections_that_were_only_counted_are_logged_when_the_process_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ended() -> None:
        rejections = Rejections(logging.getLogger("convoy.p"))
        for number in range(LOGGED + 100):
            rejections.note(f"peer-{number}", MessageError("late", "x"))
        rejections.end()

    run_virtual(ended())
    line = told(caplog.records)[-1]
    assert line.startswith("rejected 100 more messages: 1 of peer-20 (late), ")
    assert line.endswith(" and 95 more sorts")


def test_few_rejections_are_all_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def few() -> None:
        rejections = Rejections(logging.getLogger("convoy.p"))
        for number in range(100):
            rejections.note("p", MessageError("late", str(number)))
            await asyncio.sleep(1.0)
        rejections.end()

    run_virtual(few())
    assert len(told(caplog.records)) == 100

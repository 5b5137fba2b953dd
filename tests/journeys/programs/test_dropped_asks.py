"""Asks whose envelopes are kept, copied and dropped: each ask gets one answer, and no asker waits for
an answer that can no longer come."""

from __future__ import annotations

import asyncio
import copy
import gc
from pathlib import Path

import pytest

from runtime import Actor, AskTimeout, Envelope
from tests.journeys.programs.test_mistakes import error_of, handler


@pytest.mark.parametrize("place", ["dict", "task", "cycle"])
def test_an_envelope_that_is_dropped_later_is_refused_to_the_asker(
    tmp_path: Path, place: str
) -> None:
    kept: dict[int, object] = {}

    async def later(envelope: Envelope) -> None:
        await asyncio.get_running_loop().create_future()

    async def keeps(helper: Actor, envelope: Envelope) -> None:
        if place == "task":
            kept[1] = asyncio.create_task(later(envelope))
        elif place == "cycle":
            cycle: list[object] = [envelope]
            cycle.append(cycle)
        else:
            kept[1] = {"jobs": [envelope]}

    async def drops(helper: Actor, envelope: Envelope) -> int:
        if place == "task":
            kept.pop(1).cancel()  # type: ignore[attr-defined]
        kept.clear()
        gc.collect()
        return 1

    first, second = handler(keeps), handler(drops)

    async def asks(lead: Actor) -> object:
        asking = asyncio.ensure_future(lead.ask("helper", first, int))
        await asyncio.sleep(0)
        assert await lead.ask("helper", second, int) == 1
        return await asking

    assert "in on_job: the handler ended without an answer" in error_of(tmp_path, asks)


def test_an_exception_in_a_tell_ends_the_run_also_after_an_ask_that_was_dropped(
    tmp_path: Path,
) -> None:
    kept: list[Envelope] = []

    async def keeps(helper: Actor, envelope: Envelope) -> None:
        kept.append(envelope)

    async def fails(helper: Actor, envelope: Envelope) -> None:
        kept.clear()
        raise ValueError("in a tell")

    first, second = handler(keeps), handler(fails)

    async def asks(lead: Actor) -> object:
        with pytest.raises(AskTimeout):
            await lead.ask("helper", first, int, timeout=0.01)
        for _ in range(3):  # one of their envelopes takes the place of the first in memory
            await lead.tell("helper", second)
        return await asyncio.get_running_loop().create_future()

    assert "in fails: ValueError: in a tell" in error_of(tmp_path, asks)


def test_a_copy_of_an_envelope_can_be_answered_and_an_ask_gets_one_answer(tmp_path: Path) -> None:
    kept: list[object] = []

    async def copies(helper: Actor, envelope: Envelope) -> None:
        kept.append(asyncio.ensure_future(helper.reply(envelope._replace(step=3), 5)))

    async def twice(helper: Actor, envelope: Envelope) -> None:
        await asyncio.gather(helper.reply(envelope, 6), helper.reply(copy.copy(envelope), 7))

    jobs = [handler(body) for body in (copies, twice)]

    async def asks(lead: Actor) -> object:
        assert await lead.ask("helper", jobs[0], int) == 5
        assert await lead.ask("helper", jobs[1], int) == 6
        return await asyncio.get_running_loop().create_future()

    assert "in twice: answered: helper has already answered Job(" in error_of(tmp_path, asks)

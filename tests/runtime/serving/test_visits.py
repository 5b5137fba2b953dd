"""The readers that are expected to come to a page again, and the last look at the end of a run,
with the clock of the test.
"""

from __future__ import annotations

import asyncio

from runtime.serving.visits import READERS, LastLook, Visits
from runtime.simulation.clock import run_virtual


def noted(*times: float, page: str = "metrics", connection: str = "a:1") -> Visits:
    visits = Visits()
    for at in times:
        visits.note(page, connection, at)
    return visits


def test_a_reader_that_came_twice_is_expected_within_one_and_a_half_pauses_and_one_that_came_once_is_not() -> (
    None
):
    assert noted(1.0).expected("metrics", 1.0) == {}
    visits = noted(1.0, 3.0)
    assert visits.expected("metrics", 3.0) == {("metrics", "a:1"): 6.0}
    assert visits.expected("metrics", 6.5) == {}
    assert visits.expected("sd", 3.0) == {}


def test_the_longest_of_the_last_pauses_counts() -> None:
    assert noted(0.0, 10.0, 11.0, 12.0, 13.0, 14.0).expected("metrics", 14.0) == {
        ("metrics", "a:1"): 15.5
    }


def test_connections_are_distinguished_and_a_bounded_number_is_remembered() -> None:
    visits = noted(0.0, 1.0)
    for number in range(READERS):
        visits.note("metrics", f"b:{number}", 1.0)
    assert visits.expected("metrics", 1.0) == {}
    assert repr(visits) == f"<visits of {READERS} readers>"


def look(
    visits: Visits, *coming: tuple[float, str], stop: float | None = None, seconds: float = 30.0
) -> list[str]:
    """Run the end of a run at 10 s, with these visits to come. Returns the messages, whether and
    when all expected readers had read the page, and the time when the last look was over.
    """
    told: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10.0)
        last = LastLook(lambda: told.append("stays"))
        last.seconds = seconds
        for at, page in coming:
            loop.call_at(at, visits.note, page, "a:1", at)
        if stop is not None:
            loop.call_at(stop, last.stop)
        looking = asyncio.create_task(last.at(visits))
        while not looking.done() and not last.was_seen:  # noqa: ASYNC110  # on virtual time
            await asyncio.sleep(0.25)
        told.append(f"seen {last.was_seen} by {loop.time():g}")
        await looking
        told.append(f"over at {loop.time():g}")

    run_virtual(main())
    return told


def test_the_end_does_not_wait_without_a_regular_reader() -> None:
    assert look(noted(9.0)) == ["seen False by 10.25", "over at 10.25"]


def test_the_page_stays_until_it_was_read_and_then_until_the_list_was() -> None:
    visits = noted(7.0, 9.0)
    for at in (6.0, 9.5):
        visits.note("sd", "a:1", at)
    said = look(visits, (10.9, "metrics"), (11.5, "metrics"), (13.0, "sd"))
    assert said == ["stays", "seen True by 11", "over at 13"]


def test_a_reader_that_does_not_come_any_more_is_given_up() -> None:
    assert look(noted(7.0, 9.0))[1:] == ["seen True by 12", "over at 12"]


def test_the_last_look_takes_a_bounded_time_and_can_be_stopped() -> None:
    assert look(noted(0.0, 9.0), seconds=1.9)[1:] == ["seen False by 12", "over at 12"]
    assert look(noted(0.0, 9.0), stop=10.9)[1:] == ["seen False by 11", "over at 11"]
    assert look(noted(0.0, 9.0), seconds=0.0) == ["seen False by 10.25", "over at 10.25"]

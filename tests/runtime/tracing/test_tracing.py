"""The parts of a trace, their clocks, and the merge into one file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.messages.message import Envelope, Message, message
from runtime.tracing.merging import FILE, Clock, is_unmerged, merge, part_of, write_clocks
from runtime.tracing.tracer import Tracer
from runtime.tracing.tracks import Lanes, Track
from tests.helpers.chrome_trace import check


@message
class Traced(Message):
    """A message to trace."""

    number: int


class Hours:
    """A clock that the test sets."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def said(number: int, sender: str, receiver: str, answers: int = 0) -> Envelope:
    return Envelope(
        Traced(number=number), number, sender, 1, receiver, "" if answers else sender, answers, 7
    )


def sending(directory: Path, numbers: range, clock: Hours) -> None:
    """A process in which `a` sends messages to `b`, 2 ms each."""
    tracer = Tracer(part_of(directory, "p1", 1), "p1", 1, ["a"], clock)
    for number in numbers:
        began = tracer.sending(said(number, "a", "b"))
        clock.now += 0.002
        tracer.sent(said(number, "a", "b"), began)
    assert tracer.close() == part_of(directory, "p1", 1).stat().st_size


def handling(directory: Path, numbers: range, clock: Hours) -> None:
    """A process that handles these messages, 1 ms each."""
    tracer = Tracer(part_of(directory, "p2", 1), "p2", 2, ["b"], clock)
    for number in numbers:
        began = tracer.handling(said(number, "a", "b"))
        clock.now += 0.001
        tracer.handled(said(number, "a", "b"), began)
    tracer.close()


def test_clocks_of_other_hosts_are_corrected_and_messages_without_both_ends_are_left_out(
    tmp_path: Path,
) -> None:
    sending(tmp_path, range(1, 4), Hours(100.0))
    handling(tmp_path, range(2, 6), Hours(5100.004))  # 5000 s ahead
    clock = Clock.of([(50.0, 5050.6, 51.0), (60.0, 5060.05, 60.1)])
    assert (clock.ahead, clock.within) == (pytest.approx(5000.0), pytest.approx(0.05)), (
        "the quickest answer was not used"
    )
    write_clocks(tmp_path, 1, 99.5, {"p1": Clock(), "p2": clock})
    assert is_unmerged(tmp_path)
    merged = merge(tmp_path)
    assert not is_unmerged(tmp_path)
    assert (merged.spans, merged.flows, merged.processes, merged.missing) == (7, 2, 2, ())
    events = json.loads((tmp_path / FILE).read_text())
    times = {
        (event["args"]["actor"], event["ts"], event["dur"])
        for event in events
        if event["ph"] == "X"
    }
    assert ("a", 500_000.0, 2000.0) in times and ("b", 504_000.0, 1000.0) in times
    assert {event["ph"] + str(event["id"]) for event in events if event["ph"] in "sf"} == {
        "s1",
        "f1",
        "s2",
        "f2",
    }
    labels = [event["args"]["labels"] for event in events if event["name"] == "process_labels"]
    assert labels == ["clock within 50 ms"], "only a clock other than that of `up` has a label"


def test_a_line_that_a_death_has_cut_is_left_out_and_a_process_without_a_part_is_named(
    tmp_path: Path,
) -> None:
    sending(tmp_path, range(1, 3), Hours(1.0))
    part = part_of(tmp_path, "p1", 1)
    part.write_bytes(part.read_bytes()[:-9])
    write_clocks(tmp_path, 1, 0.0, {"p1": Clock(), "p2": Clock()})
    merged = merge(tmp_path)
    assert (merged.spans, merged.missing) == (2, ("p2",)) and "nothing of p2" in str(merged)


def test_work_that_began_before_tracing_begins_at_moment_0(tmp_path: Path) -> None:
    tracer = Tracer(part_of(tmp_path, "p1", 1), "p1", 1, ["a"], Hours(12.0))
    tracer.computed("a", "long", 9.0, 2.0, 1)
    tracer.waited(said(1, "a", "b"), 8.0)
    tracer.computed("a", "over", 5.0, 1.0, 0)
    tracer.close()
    write_clocks(tmp_path, 1, 10.0, {"p1": Clock()})
    merge(tmp_path)
    events = json.loads((tmp_path / FILE).read_text())
    times = {event["name"]: (event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    assert times == {"long": (0.0, 1e6), "Traced": (0.0, 2e6), "over": (0.0, 0.0)}


def test_messages_that_by_the_clocks_arrive_before_they_are_sent_have_no_arrow_and_are_counted(
    tmp_path: Path,
) -> None:
    sending(tmp_path, range(1, 4), Hours(100.0))
    handling(tmp_path, range(1, 4), Hours(100.0015))  # the third arrives 0.5 ms too early
    write_clocks(tmp_path, 1, 99.5, {"p1": Clock(), "p2": Clock(0.0, 0.05)})
    merged = merge(tmp_path)
    assert (merged.spans, merged.flows, merged.backward) == (6, 2, 1)
    assert str(merged).endswith(
        "; 1 more have no arrow: by the clocks of their hosts they arrived before they were sent"
    )
    check(json.loads((tmp_path / FILE).read_text()))


def test_an_answer_ends_in_a_separate_span_within_the_wait_of_its_asker(tmp_path: Path) -> None:
    clock = Hours(1.0)
    tracer = Tracer(part_of(tmp_path, "p1", 1), "p1", 1, ["a", "b"], clock)
    ask = said(1, "a", "b")
    answer = said(9, "b", "a", answers=1)
    tracer.sent(answer, tracer.sending(answer))
    clock.now = 1.5
    tracer.answered(answer)
    clock.now = 2.0
    tracer.waited(ask, 1.0)
    tracer.close()
    write_clocks(tmp_path, 1, 0.0, {"p1": Clock()})
    merge(tmp_path)
    events = json.loads((tmp_path / FILE).read_text())
    (end,) = [event for event in events if event["ph"] == "f"]
    (wait,) = [event for event in events if event.get("cat") == "wait"]
    (came,) = [event for event in events if event.get("cat") == "answer"]
    assert (end["ts"], end["tid"], wait["ts"], wait["dur"]) == (1.5e6, wait["tid"], 1e6, 1e6)
    assert (came["name"], came["ts"], came["dur"], came["tid"]) == (
        "Traced",
        1.5e6,
        0.5e6,
        wait["tid"],
    )
    check(events)


def test_a_full_disk_ends_the_trace_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracer = Tracer(part_of(tmp_path, "p1", 1), "p1", 1, ["a"], Hours(1.0))
    assert tracer._part._file is not None
    full = Path("/dev/full").open("wb")  # noqa: SIM115  # takes the place of the part
    os.dup2(full.fileno(), tracer._part._file)
    full.close()
    tracer.computed("a", "grind", 0.0, 1.0, 3)
    tracer.close()
    assert "the trace of this process ends here" in caplog.text and "No space left" in caplog.text


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=40))
def test_no_two_spans_of_a_lane_overlap(spans: list[tuple[int, int]]) -> None:
    lanes = Lanes()
    found = dict[int, list[tuple[int, int]]]()
    for began, taken in sorted(spans, key=sum):  # spans are placed when they end
        lane, is_new = lanes.place("a", Track.WAITS, began, began + taken)
        assert is_new == (lane not in found)
        assert all(
            end <= began or began + taken <= begin for begin, end in found.setdefault(lane, [])
        )
        found[lane].append((began, began + taken))

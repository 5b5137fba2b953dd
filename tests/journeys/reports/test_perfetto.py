"""Our traces in Perfetto, an independent program: it reports no error, and has every span and every
arrow."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

import runtime
from runtime.attached.attach import attach
from runtime.tracing.merging import part_of
from tests.helpers.chrome_trace import closed
from tests.helpers.perfetto import missing, perfetto
from tests.helpers.watched import Hello, watched
from tests.journeys.reports.test_traces import PATIENT, written

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

COMPLAINTS = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
SPANS = "select category, count(*) from slice group by category"
ARROWS = """select sent.category, got.category, sent.name = got.name, count(*) from flow
  join slice sent on sent.id = flow.slice_out join slice got on got.id = flow.slice_in group by 1, 2, 3"""
TRACKS = (
    "select process.name, thread.name from thread join process using (upid) where "
    "thread.name is not null"
)


def compare(trace: Path, folder: Path) -> None:
    """Raise AssertionError if Perfetto shows anything else than the file contains."""
    events = closed(trace)
    kinds = Counter(event["cat"] for event in events if event["ph"] == "X")
    arrows = sum(event["ph"] == "s" for event in events)
    places = {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }
    names = {
        (places[event["pid"]], event["args"]["name"])
        for event in events
        if event["name"] == "thread_name"
    }
    with perfetto(trace, folder) as shown:
        assert shown.query(COMPLAINTS) == []
        assert dict(shown.query(SPANS)) == kinds
        drawn = shown.query(ARROWS)
        assert sum(count for *_, count in drawn) == arrows > 0
        assert {(sent, got, same) for sent, got, same, _ in drawn} == {
            ("send", "handle", 1),
            ("send", "answer", 1),
        }
        assert {(process, thread) for process, thread in shown.query(TRACKS)} >= names


@pytest.mark.slow  # needs a browser
async def test_perfetto_shows_all_of_a_trace_that_began_while_actors_computed_and_waited(
    tmp_path: Path,
) -> None:
    async with (
        runtime.launch(watched(), directory=tmp_path, liveness=PATIENT) as run,
        attach(run.directory) as client,
    ):
        await run.ask("deaf", Hello(), Hello)
        await client.begin_trace()
        await written(part_of(run.directory, "busy", 1), b'"grind"')
        await client.end_trace()
        await run.wind_down()
    await asyncio.to_thread(compare, run.directory / "trace.json", tmp_path)

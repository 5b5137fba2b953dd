"""A worker that is slower than its peers: it is named within 20 iterations, in the journal and in
`status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.attached.run_status import SLOWER, journal
from tests.helpers.support import Simulated, configure, train

WITHIN = 20  # iterations
SLOW = {"sync": "conv-0-1", "async": "conv-1-0", "replicas": "replica-1"}


def run(folder: Path, preset: str, times: float) -> Simulated:
    """Three workers, of which one takes `times` as long. Asynchronous workers get more iterations,
    since each asks when it is ready."""
    more = 1 + 2 * times if preset == "async" else 1
    cluster = configure(folder, preset, workers=3, iterations=int(WITHIN * more))

    def seconds(actor: str, label: str) -> float:
        return 0.01 * (times if actor == SLOW[preset] else 1.0)

    return train(cluster, service_time=seconds, checkpoint=False)


@pytest.mark.few("[2-sync")
@pytest.mark.parametrize("preset", SLOW)
@pytest.mark.parametrize("times", [2, 5, 10])
def test_a_straggler_is_named_within_twenty_of_its_passes(
    tmp_path: Path, one_thread: None, preset: str, times: int
) -> None:
    named = run(tmp_path, preset, times).journal.of(SLOWER)
    assert [fields["worker"] for fields in named] == [SLOW[preset]]
    assert named[0]["times"] == pytest.approx(times, rel=0.2)


def test_among_equal_workers_none_is_named(tmp_path: Path, one_thread: None) -> None:
    assert run(tmp_path, "sync", 1.0).journal.of(SLOWER) == []


def test_status_shows_the_workers_that_are_slow_now(tmp_path: Path) -> None:
    lines = [("straggler", "a", 2.0), ("straggler", "b", 3.0), ("caught up", "a", 1.0)]
    said = [
        {"t": 0.0, "actor": "coordinator", "event": e, "worker": w, "times": t} for e, w, t in lines
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in said))
    found = journal(tmp_path)[SLOWER]
    assert {worker for worker, event in found.items() if event["event"] == SLOWER} == {"b"}

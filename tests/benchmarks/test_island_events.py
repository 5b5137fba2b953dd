"""Islands that come and go on machines in real time: what islands and the outer server wrote down,
and who was there when."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.islands import events
from benchmarks.islands.noted import ledger_of, lives_in


def write(folder: Path, life: str, *lines: dict[str, Any], cut: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / life).write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)


def notes(folder: Path) -> Path:
    """Iteration 2 is trained twice, and merged once: its first island was killed. The server goes on
    from a model without its last step, which is merged again."""
    write(
        folder,
        "island-0.1",
        *({"at": float(n), "number": n, "first": 10 * n} for n in (0, 1, 2)),
        cut='{"at": 3.0, "num',
    )
    write(folder, "island-0.2", {"at": 9.0, "number": 3, "first": 30})
    write(folder, "island-1.1", {"at": 4.0, "number": 2, "first": 20})
    write(
        folder,
        "outer.1",
        {"at": 2.5, "version": 2, "gains": [["island-0", 1, 0, 2]]},
        {"at": 5.0, "version": 3, "gains": [["island-1", 1, 2, 1]]},
    )
    write(
        folder,
        "outer.2",
        {"at": 7.0, "anchored": 2},
        {"at": 8.0, "version": 3, "gains": [["island-1", 1, 2, 1]]},
        {"at": 9.5, "version": 4, "gains": [["island-0", 2, 3, 1]]},
    )
    return folder


def test_samples_are_those_that_are_in_the_model_at_the_end(tmp_path: Path) -> None:
    lives = lives_in(notes(tmp_path / "notes"))
    ledger = ledger_of(lives, "outer", 10)
    assert ledger.is_exact(4)
    assert ledger.lost == [1]
    assert ledger.next_after(6.0) == 2.0


def test_a_sample_that_is_missing_or_twice_in_the_model_is_found(tmp_path: Path) -> None:
    folder = notes(tmp_path / "notes")
    kept = (folder / "outer.2").read_text()
    lines = kept.splitlines(keepends=True)
    (folder / "outer.2").write_text("".join(lines[:-1]))
    assert not ledger_of(lives_in(folder), "outer", 10).is_exact(4)
    (folder / "outer.2").write_text(kept + lines[1].replace("3,", "5,", 1))
    assert not ledger_of(lives_in(folder), "outer", 10).is_exact(4)


def test_an_island_that_was_harmed_is_away_until_its_next_life_begins(tmp_path: Path) -> None:
    folder = notes(tmp_path / "notes")
    for rank in range(2, len(events.SECONDS)):
        write(folder, f"island-{rank}.1")
    site = SimpleNamespace(harmed=[(2.2, "kill", "island-0")], back=[])
    found = events.presence_of(site, lives_in(folder))  # type: ignore[arg-type]
    assert found.absent == [("island-0", 2.2, 9.0)]
    assert found.iterated["island-0"] == [0.0, 1.0, 2.0, 9.0]


@pytest.mark.slow
def test_each_sample_is_once_in_the_model_after_a_few_events_on_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "PAUSE", events.PATIENCE)  # no test asserts a time
    record = events.measured(argparse.Namespace(real_events=4, real_deaths=1, real_seed=1))
    if record.status == "skipped":
        pytest.skip(record.notes[-1])
    assert record.status == "passed", record.notes

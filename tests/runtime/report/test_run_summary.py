"""The summary of a run: kept when it ends, and otherwise made from its journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.report.run_summary import FILE, RunSummary, summary_of
from runtime.report.rundir import RunDirectory

Told = tuple[str, dict[str, Any]]
BEGUN: list[Told] = [("began", {"processes": 2})]
TRAINED: list[Told] = [
    *BEGUN,
    ("test", {"iteration": 0, "accuracy": 0.1, "loss": 2.5}),
    ("progress", {"iteration": 10, "max_iter": 20, "loss": 1.5, "epoch": 0.5}),
    ("test", {"iteration": 10, "accuracy": 0.9, "loss": 0.5}),
    ("progress", {"iteration": 20, "max_iter": 20, "loss": 0.7, "epoch": 1.0}),
    ("test", {"iteration": 20, "accuracy": 0.8, "loss": 0.4}),
]
FINISHED: Told = ("finished", {"iterations": 20, "images_per_second": 100.0, "accuracy": 0.8})
ENDED: Told = ("ended", {})


def directory(folder: Path, told: list[Told], *, closed: bool = True) -> Path:
    """The directory of a run with these events. A run that is not closed was killed."""
    run = RunDirectory(folder, "digits")
    run.write("config.toml", '[train]\nnet = "lenet"\n[[machine]]\nname = "a"\n')
    for event, fields in told:
        run.event("supervisor", event, fields)
    if closed:
        run.close()
    return run.path


def summary(path: Path, *, lives: bool = False) -> RunSummary:
    damaged: list[str] = []
    found = summary_of(path, lives=lives, damaged=damaged)
    assert damaged == []
    return found


def test_the_kept_summary_equals_the_summary_made_from_the_journal(tmp_path: Path) -> None:
    path = directory(tmp_path, [*TRAINED, FINISHED, ENDED])
    kept = summary(path)
    (path / "events.jsonl").rename(tmp_path / "journal")
    assert summary(path) == kept, "a kept summary needs no journal"
    (tmp_path / "journal").rename(path / "events.jsonl")
    (path / FILE).unlink()
    assert summary(path) == kept
    assert (kept.state, kept.iteration, kept.max_iter, kept.epoch) == ("ended", 20, 20, 1.0)
    assert (kept.score, kept.best_score, kept.last_score) == ("accuracy", (0.9, 10), 0.8)
    assert kept.best["loss"] == (0.4, 20), "a loss is better if it is smaller"
    assert (kept.loss, kept.images_per_second) == (0.7, 100.0)
    assert kept.keys == {"train.net": "lenet", "machine.0.name": "a"}


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ([*TRAINED, FINISHED, ENDED], "ended"),
        ([*TRAINED, ("stopping early", {}), FINISHED, ENDED], "ended"),
        ([*TRAINED, ("winding down", {"reason": "SIGINT"}), FINISHED, ENDED], "interrupted"),
        ([*BEGUN, ("stopped", {})], "interrupted"),
        ([*TRAINED, ("handed over", {}), ("continued", {"in": "x"}), ENDED], "continued"),
        ([*BEGUN, ("failed", {"error": "no"})], "failed"),
        ([], "interrupted"),
    ],
)
def test_the_state_of_a_run_that_is_over_says_how_it_ended(
    tmp_path: Path, told: list[Told], state: str
) -> None:
    assert summary(directory(tmp_path, told)).state == state


def test_a_killed_run_has_no_summary_and_is_summed_up_by_its_journal(tmp_path: Path) -> None:
    path = directory(tmp_path, TRAINED, closed=False)
    assert not (path / FILE).exists()
    found = summary(path)
    assert (found.state, found.best_score, found.iteration) == ("interrupted", (0.9, 10), 20)
    assert summary(path, lives=True).state == "running"


def test_the_best_score_that_the_lead_names_counts(tmp_path: Path) -> None:
    named: Told = ("finished", {"iterations": 20, "best_loss": 0.3, "best_iteration": 5})
    found = summary(directory(tmp_path, [*TRAINED, named, ENDED]))
    assert (found.score, found.best_score, found.last_score) == ("loss", (0.3, 5), 0.4)


def test_only_the_scores_of_the_first_test_net_count(tmp_path: Path) -> None:
    tests: list[Told] = [
        ("test", {"iteration": 5, "net": "a", "accuracy": 0.5}),
        ("test", {"iteration": 5, "net": "b", "accuracy": 0.9}),
        ("test", {"iteration": 9, "net": "a", "accuracy": 0.6}),
        ("test", {"iteration": 9, "net": "b", "accuracy": 0.7}),
    ]
    assert summary(directory(tmp_path, tests)).best == {"accuracy": (0.6, 9)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"state": "lost"}',
        '{"iteration": "x"}',
        '{"other": 1}',
        '{"best": {"a": 1}}',
    ],
)
def test_a_damaged_summary_is_named_and_the_journal_counts(tmp_path: Path, text: str) -> None:
    path = directory(tmp_path, [*TRAINED, FINISHED, ENDED])
    (path / FILE).write_text(text)
    damaged: list[str] = []
    found = summary_of(path, lives=False, damaged=damaged)
    assert (found.state, found.best_score) == ("ended", (0.9, 10))
    (note,) = damaged
    assert note.startswith(f"{path / FILE}: it is damaged: ")
    assert note.endswith("expected the summary of a run; the summary is made from the journal")


def test_a_run_that_is_not_observed_keeps_no_summary(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "digits", observed=False)
    run.close()
    assert not (run.path / FILE).exists()
    assert json.loads((run.path / "run.json").read_text())["name"] == "digits"

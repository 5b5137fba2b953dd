"""run.json and the order of runs: the newest run is found under any clocks, time zones, names and
damage.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.records.run_identity import FILE, Identity, identity_of
from runtime.records.runs import next_begin, run_with, runs_in, runs_named
from runtime.report.rundir import RunDirectory

BEGAN = 1_700_000_000.25


def recorded(folder: Path, directory: str, name: str, began: float) -> Path:
    """A run directory with a run.json and an empty journal."""
    path = folder / directory
    path.mkdir(parents=True)
    Identity.new(name, began).write(path)
    (path / "events.jsonl").touch()
    return path


def earlier(folder: Path, *lines: str, config: str = '[run]\nname = "exp"\n') -> Path:
    """A run directory of a version that wrote no run.json."""
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "config.toml").write_text(config)
    return folder


def event(t: float, **more: object) -> str:
    return json.dumps({"t": t, "actor": "supervisor", "event": "process", **more})


def test_a_written_identity_is_read_back_equal(tmp_path: Path) -> None:
    wrote = Identity.new("exp", BEGAN, continues="a1", up="b2")
    wrote.write(tmp_path)
    assert identity_of(tmp_path) == wrote
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / FILE).read_text())["began"] == "2023-11-14T22:13:20.250000Z"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_the_begin_is_read_in_any_time_zone(tmp_path: Path) -> None:
    run = recorded(tmp_path, "a", "exp", BEGAN)
    said = json.loads((run / FILE).read_text()) | {"began": "2023-11-15T03:13:20.250+05:00"}
    (run / FILE).write_text(json.dumps(said))
    found = identity_of(run)
    assert found is not None and found.began == BEGAN


def test_a_run_of_an_earlier_version_began_when_its_journal_says(tmp_path: Path) -> None:
    run = earlier(tmp_path / "old", event(0.5), event(2.0, unix_seconds=BEGAN + 2.0))
    assert identity_of(run) == Identity("", "exp", BEGAN)
    bare = earlier(
        tmp_path / "bare", event(1.0, unix_seconds=BEGAN + 1.0), config='program = "sums"\n'
    )
    assert identity_of(bare) == Identity("", "sums", BEGAN)


def test_a_run_on_virtual_time_of_an_earlier_version_began_when_its_journal_was_written(
    tmp_path: Path,
) -> None:
    run = earlier(tmp_path / "old", event(0.5))
    os.utime(run / "events.jsonl", (BEGAN, BEGAN))
    assert identity_of(run) == Identity("", "exp", BEGAN)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[1]",
        '"text"',
        "[" * 100_000,
        '{"id": "x", "name": "exp", "began": 17, "continues": "", "up": ""}',
        '{"id": "x", "name": "exp", "began": "2026-01-01T00:00:00", "continues": "", "up": ""}',
        (
            '{"id": "x", "name": "exp", "began": "9999-12-31T23:59:59.999999Z", "continues": "", '
            '"up": ""}'
        ),
        (
            '{"id": "x", "name": "exp", "began": "0001-01-01T00:00:00+14:00", "continues": "", '
            '"up": ""}'
        ),
        '{"id": "x", "name": ["exp"], "began": "2026-01-01T00:00:00Z", "continues": "", "up": ""}',
    ],
    ids=range(10),
)
def test_a_damaged_run_json_counts_as_missing(damage: str, tmp_path: Path) -> None:
    run = earlier(tmp_path / "old", event(0.5, unix_seconds=BEGAN + 0.5))
    (run / FILE).write_text(damage)
    assert identity_of(run) == Identity("", "exp", BEGAN)


def test_a_folder_that_is_not_a_run_directory_has_no_identity(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo" / FILE)
    os.mkfifo(tmp_path / "fifo" / "events.jsonl")
    assert [identity_of(tmp_path / name) for name in (".", "file", "fifo", "nowhere")] == [None] * 4
    assert runs_in(tmp_path) == runs_in(tmp_path / "nowhere") == runs_in(tmp_path / "file") == []


@pytest.mark.parametrize("stamp", [1e12 - 1, 1e300, -1.0, 10**400])
def test_a_journal_whose_time_is_damaged_breaks_no_run_that_follows(
    stamp: float, tmp_path: Path
) -> None:
    """A begin in the year 33658 is not a valid date, so no later run could be written after it."""
    run = earlier(tmp_path / "runs" / "old", event(0.5, unix_seconds=stamp))
    os.utime(run / "events.jsonl", (BEGAN, BEGAN))
    found = RunDirectory(tmp_path / "runs", "exp")
    found.close()
    assert [known.directory.name for known in runs_in(tmp_path / "runs")] == [
        "old",
        found.path.name,
    ]


def test_runs_are_in_the_order_of_their_begins_not_of_their_names(tmp_path: Path) -> None:
    recorded(tmp_path, "20260101-exp", "exp", BEGAN + 2)
    recorded(tmp_path, "20270101-exp", "exp", BEGAN)
    recorded(tmp_path, "20280101-exp-2", "exp-2", BEGAN + 3)
    earlier(tmp_path / "20290101-exp", event(1.0, unix_seconds=BEGAN + 2))
    order = ["20270101-exp", "20290101-exp", "20260101-exp", "20280101-exp-2"]
    assert [run.directory.name for run in runs_in(tmp_path)] == order
    assert [run.directory.name for run in runs_named(tmp_path, "exp")] == order[:3]
    newest = runs_in(tmp_path)[-1]
    assert run_with(tmp_path, newest.identity.id) == newest
    assert run_with(tmp_path, "") is run_with(tmp_path, "unknown") is None


@pytest.mark.parametrize("years", [0, 200, 6900], ids=["today", "2223", "8923"])
def test_after_the_clock_was_set_back_a_new_run_is_still_the_newest(
    years: int, tmp_path: Path
) -> None:
    later = BEGAN + years * 365.25 * 86400
    recorded(tmp_path, "a", "exp", later)
    before = runs_in(tmp_path)[-1]
    for name in ("0", "1", "2"):  # the name of its folder sorts before that of the previous run
        began, behind = next_begin(tmp_path, later - 3600)
        assert began > before.identity.began and behind == before
        recorded(tmp_path, name, "exp", began)
        before = runs_in(tmp_path)[-1]
        assert before.directory.name == name
    assert next_begin(tmp_path, later + 60) == (later + 60, None)


def test_a_run_directory_that_cannot_be_completed_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Identity, directory: Path) -> None:
        raise OSError(28, "No space left on device", str(directory))

    monkeypatch.setattr(Identity, "write", full)
    with pytest.raises(Exception, match="No space left"):
        RunDirectory(tmp_path, "exp")
    assert list(tmp_path.iterdir()) == []


def test_names_of_folders_use_local_time_and_the_begin_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    found = []
    for zone in ("XXX-2", "XXX-1"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        made = RunDirectory(tmp_path, "exp")
        made.close()
        found.append(made.path.name)
    monkeypatch.undo()
    time.tzset()
    assert found == sorted(found, reverse=True)
    assert [run.directory.name for run in runs_in(tmp_path)] == found
    assert all(
        abs(run.identity.began - datetime.now(UTC).timestamp()) < 600 for run in runs_in(tmp_path)
    )

"""Trackers of experiments: they get the numbers of a run, never hold it up, and never end it."""

from __future__ import annotations

import asyncio
import importlib
import json
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runtime.errors import ConvoyError
from runtime.report import trackers
from runtime.report.trackers import Tracked
from tests.helpers.support import configure, events, run_directory, run_up

PROGRESS = {"iteration": 5, "max_iter": 10, "loss": 0.5, "elapsed_seconds": 1.0, "text": "x"}
TEST = {"iteration": 5, "accuracy": 0.75, "net": "test 2"}
PATIENCE = 60.0


class Fake:
    """A tracker that keeps what it gets. It waits for `goes_on`, and raises `fault`."""

    goes_on = threading.Event()
    fault: Exception | None = None
    found: list[Any]

    def __init__(self, directory: Path) -> None:
        type(self).found = [directory.name]

    def log(self, numbers: Mapping[str, float], iteration: int) -> None:
        assert self.goes_on.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        self.found.append((iteration, dict(numbers)))

    def close(self, *, failed: bool) -> None:
        self.found.append("failed" if failed else "finished")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Fake]]:
    class Own(Fake):
        goes_on = threading.Event()

    Own.goes_on.set()
    module = ModuleType("a_tracker")
    module.Own = Own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_tracker", module)
    monkeypatch.setitem(trackers.TRACKERS, "fake", "a_tracker:Own")
    yield Own
    Own.goes_on.set()


async def test_a_tracker_gets_each_number_with_its_iteration_and_the_end(
    tmp_path: Path, fake: type[Fake]
) -> None:
    told: list[str] = []
    tracked = Tracked("fake", tmp_path, told.append)
    tracked.event("coordinator", "progress", PROGRESS)
    tracked.event("coordinator", "regrouped", {"groups": 2})
    tracked.event("coordinator", "test", TEST)
    await tracked.close()
    assert fake.found == [
        tmp_path.name,
        (5, {"progress/loss": 0.5}),
        (5, {"test/test 2/accuracy": 0.75}),
        "finished",
    ]
    assert told == []


async def test_a_tracker_sees_that_a_run_failed(tmp_path: Path, fake: type[Fake]) -> None:
    tracked = Tracked("fake", tmp_path, lambda text: None)
    tracked.failed(ConvoyError("x"))
    await tracked.close()
    assert fake.found[-1] == "failed"


async def test_a_tracker_that_hangs_holds_nothing_up_and_loses_numbers_with_one_line(
    tmp_path: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "WAITING", 3)
    monkeypatch.setattr(trackers, "CLOSE_SECONDS", 0.0)
    fake.goes_on.clear()
    told: list[str] = []
    tracked = Tracked("fake", tmp_path, told.append)
    for _ in range(20):
        tracked.event("coordinator", "progress", PROGRESS)
    await tracked.close()
    await asyncio.sleep(0)
    assert told == [
        "run.trackers: fake: 3 reports wait for it: further numbers are lost",
        "run.trackers: fake: has not ended after 0 s: its last numbers may be missing",
    ]


async def test_a_tracker_that_fails_is_told_in_one_line(tmp_path: Path, fake: type[Fake]) -> None:
    fake.fault = ValueError("no\nspace")
    told: list[str] = []
    tracked = Tracked("fake", tmp_path, told.append)
    for _ in range(3):
        tracked.event("coordinator", "progress", PROGRESS)
    await tracked.close()
    await asyncio.sleep(0)
    assert told == ["run.trackers: fake: no space: the run goes on without it"]


async def test_a_missing_package_is_told_in_one_line_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "runtime.report.wandb_tracker", raising=False)
    told: list[str] = []
    tracked = Tracked("wandb", tmp_path, told.append)
    await tracked.close()
    await asyncio.sleep(0)
    (text,) = told
    assert text.startswith("run.trackers: wandb: ")
    assert text.endswith("the run goes on without it; pip install 'convoy-runtime[wandb]'")


@pytest.mark.slow
def test_a_run_whose_tracker_fails_trains_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "wandb").mkdir(parents=True)
    (tmp_path / "site" / "wandb" / "__init__.py").write_text('raise RuntimeError("out of order")')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    configure(tmp_path, "single", iterations=3)
    done = run_up(tmp_path / "cluster.toml", "--set", 'run.trackers=["wandb"]')
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "wandb" in line]
    assert line.startswith("warning ")
    assert line.endswith("run.trackers: wandb: out of order: the run goes on without it")
    assert [*events(run_directory(tmp_path / "cluster.toml"), "ended")]


async def test_weights_and_biases_gets_name_configuration_and_curves_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="needs wandb, which is not installed")
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_NAME"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "20261129-120000-lenet"
    directory.mkdir()
    (directory / "config.toml").write_text('[train]\nnet = "lenet"\n')
    told: list[str] = []
    tracked = Tracked("wandb", directory, told.append)
    tracked.event("coordinator", "progress", PROGRESS)
    tracked.event("coordinator", "test", {"iteration": 6, "accuracy": 0.75})
    await tracked.close()
    importlib.import_module("wandb").teardown()  # ends the process that wandb has started
    assert told == []
    (file,) = (directory / "wandb").glob("offline-run-*/run-*.wandb")
    records = [*_records(file)]
    (run,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert (run.display_name, run.project) == (directory.name, "convoy")
    config = {item.key: item.value_json for item in run.config.update}
    assert json.loads(config["train"]) == {"net": "lenet"}
    rows = [record.history.item for record in records if record.HasField("history")]
    found = [{_name(item): item.value_json for item in row} for row in rows]
    assert [row["iteration"] for row in found] == ["5", "6"]
    assert float(found[0]["progress/loss"]) == 0.5
    assert float(found[1]["test/accuracy"]) == 0.75
    (end,) = [record.exit for record in records if record.WhichOneof("record_type") == "exit"]
    assert end.exit_code == 0


def _name(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def _records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file, in the format of LevelDB's logs: after 7 bytes, blocks of 32768
    bytes with pieces of records, each with checksum, length, and type (whole, first, middle,
    last)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = file.read_bytes()
    at, kept = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        kept += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield Record.FromString(kept)
            kept = b""

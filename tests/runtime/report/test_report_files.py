"""The files that a run leaves besides its journal: a table, totals of its processes, and files for
TensorBoard. All are read back.
"""

from __future__ import annotations

import csv
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.cluster.lifecycle import Heartbeat
from runtime.errors import LaunchError
from runtime.records.journal_reading import events
from runtime.report.rundir import RunDirectory
from runtime.report.tensorboard import TensorBoard

PROGRESS = {
    "iteration": 5,
    "max_iter": 10,
    "loss": 0.5,
    "learning_rate": 0.01,
    "images_per_second": 640.0,
    "f1": 0.25,
}
TEST = {"iteration": 5, "net": "test, 2", "accuracy": 0.75, "loss": 0.4}


def table(run: RunDirectory) -> list[dict[str, str]]:
    with (run.path / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_progress_and_tests_are_rows_of_one_table_with_the_same_columns(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "digits")
    run.event("coordinator", "progress", PROGRESS)
    run.event("coordinator", "checkpoint", {"iteration": 5})
    run.event("coordinator", "test", TEST)
    first, second = table(run)  # while the run goes on
    run.close()
    assert (first["event"], first["iteration"], first["loss"], first["learning_rate"]) == (
        "progress",
        "5",
        "0.5",
        "0.01",
    )
    assert (first["accuracy"], first["net"], first["others"]) == ("", "", "f1=0.25")
    assert (second["event"], second["net"], second["accuracy"], second["others"]) == (
        "test",
        "test, 2",
        "0.75",
        "",
    )
    assert float(second["unix_seconds"]) >= float(first["unix_seconds"]) > 1.7e9


def test_every_line_of_the_journal_has_the_time_of_day_except_on_virtual_time(
    tmp_path: Path,
) -> None:
    clock = iter((0.0, 0.25, 0.5))
    real = RunDirectory(tmp_path, "real")
    real.event("a", "progress", PROGRESS)
    real.close()
    virtual = RunDirectory(tmp_path, "virtual", lambda: next(clock), virtual=True)
    virtual.event("a", "progress", PROGRESS)
    virtual.close()
    assert json.loads((real.path / "events.jsonl").read_text())["unix_seconds"] > 1.7e9
    assert json.loads((virtual.path / "events.jsonl").read_text()) == {
        "t": 0.25, "actor": "a", "event": "progress", **PROGRESS,
    }  # fmt: skip
    assert table(virtual)[0]["unix_seconds"] == ""


def beat(work: dict[str, Any], received: dict[str, Any], handled: int) -> Heartbeat:
    status = {
        "role": "server",
        "handled": handled,
        "steps": 2,
        "waited": {"b": 0.5},
        "doing": "",
        "inbox": 0,
    }
    return Heartbeat(
        process="p",
        period=0.25,
        progress=0,
        busy_seconds=0.0,
        usual_seconds=0.0,
        busy_with="",
        loop_lag=0.0,
        actors={"a": status},
        work=work,
        received=received,
    )


def test_totals_of_a_process_are_written_less_often_in_a_longer_run_and_once_at_its_end(
    tmp_path: Path,
) -> None:
    now = [0.0]
    run = RunDirectory(tmp_path, "digits", lambda: now[0])
    for number in range(4001):
        now[0] = number * 0.25
        work = {"a": {"sum": [number, 0.1, 0.01]}} if number % 4 == 0 else {}
        run.beat("p", beat(work, {"a": {"b": 8 * number}} if number % 4 == 0 else {}, number))
    run.close()
    lines = [json.loads(line) for line in (run.path / "usage.jsonl").read_text().splitlines()]
    assert len(lines) < 120
    assert lines[0]["t"] == 2.0
    assert lines[-1] == {
        "t": 1000.0,
        "process": "p",
        "actors": {
            "a": {
                "role": "server", "handled": 4000, "steps": 2, "waited_seconds": {"b": 0.5},
                "received_bytes": {"b": 32000}, "work": {"sum": [4000, 0.1, 0.01]},
            }
        },
    }  # fmt: skip


def records(file: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length, its checksum, data, its checksum (tensorflow.org,
    "TFRecord and tf.train.Example").
    """
    data = file.read_bytes()
    while data:
        (length,) = struct.unpack_from("<Q", data)
        yield data[12 : 12 + length]
        data = data[16 + length :]


def test_tensorboard_reads_every_number_at_its_iteration_as_soon_as_it_is_reported(
    tmp_path: Path,
) -> None:
    from tensorboardX.proto.event_pb2 import Event

    told: list[str] = []
    board = TensorBoard(tmp_path, told.append)
    board.event("coordinator", "progress", PROGRESS)
    board.event("coordinator", "regrouped", {"groups": 2})
    board.event("coordinator", "test", TEST)
    (file,) = (tmp_path / "tensorboard").iterdir()
    found = [
        (value.tag, event.step, round(value.simple_value, 6))
        for event in map(Event.FromString, records(file))
        for value in event.summary.value
    ]
    board.close()
    assert found == [
        ("progress/loss", 5, 0.5),
        ("progress/learning_rate", 5, 0.01),
        ("progress/images_per_second", 5, 640.0),
        ("progress/f1", 5, 0.25),
        ("test/test, 2/accuracy", 5, 0.75),
        ("test/test, 2/loss", 5, 0.4),
    ]
    assert told == []


def test_without_tensorboardx_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(
        LaunchError,
        match=(r"tensorboardX is not installed: pip install " r"'convoy-runtime\[tensorboard\]'"),
    ):
        TensorBoard(tmp_path, lambda text: None)


def test_a_journal_of_an_older_version_is_read_with_the_present_names(tmp_path: Path) -> None:
    old = {
        "t": 1.5,
        "actor": "coordinator",
        "event": "progress",
        "iteration": "100/400",
        "loss": 0.5,
    }
    old |= {"images/s": 640.0, "exposed s": 0.01}
    (tmp_path / "events.jsonl").write_text(json.dumps(old) + "\n")
    (event,) = events(tmp_path, lambda line: None)
    assert (event["iteration"], event["max_iter"], event["loss"]) == (100, 400, 0.5)
    assert (event["images_per_second"], event["exposed_seconds"]) == (640.0, 0.01)


def test_damaged_lines_are_reported_and_skipped_and_half_a_line_at_the_end_is_not_read_yet(
    tmp_path: Path,
) -> None:
    whole = '{"t": 1, "actor": "a", "event": "said", "number": %d}\n'
    text = (
        whole % 1
        + '{"t": 2, "act\n'
        + "[]\n"
        + ('{"t": "x", "actor": "a", "event": "b"}\n')
        + whole % 2
        + '{"t": 3'
    )
    (tmp_path / "events.jsonl").write_text(text)
    damaged: list[str] = []
    assert [event["number"] for event in events(tmp_path, damaged.append)] == [1, 2]
    assert damaged == ['{"t": 2, "act', "[]", '{"t": "x", "actor": "a", "event": "b"}']

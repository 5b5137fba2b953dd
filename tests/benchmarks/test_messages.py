"""The benchmark of messages: its bars, its turns, its two processes, and its messages about missing
peers."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpers.report import ROOT, Record
from benchmarks.messages import messages
from benchmarks.messages import pair as messages_pair
from benchmarks.messages.pair import Lost, Pair
from tests.helpers.support import environment


@pytest.mark.parametrize(
    ("found", "bar", "holds"),
    [
        (1.3, {"most": 1.3}, True), (1.31, {"most": 1.3}, False), (0.6, {"least": 0.6}, True),
        (0.59, {"least": 0.6}, False), (math.nan, {"least": 0.6}, False), (math.nan, {"most": 1.3}, False),
    ],
)  # fmt: skip
def test_a_bar_holds_at_its_limit_and_a_missed_one_is_a_line_and_a_failure(
    found: float, bar: dict[str, float], holds: bool
) -> None:
    record = Record("t")
    record.judge("what", found, **bar)
    assert (record.status != "failed") == holds
    assert record.notes[0].startswith("what" if holds else "MISSED what")


class Said:
    """A pair whose far end answers 1, 2, 3, and so on."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name
        self.count = 0

    def ask(self, what: str, **options: Any) -> int:
        self.log.append(self.name)
        self.count += 1
        return self.count


def test_sides_take_turns_and_the_first_round_does_not_count() -> None:
    log: list[str] = []
    sides: Any = {name: Said(log, name) for name in "xy"}
    assert messages.turns(sides, "anything", 2) == {"x": [2, 3], "y": [2, 3]}
    assert log == ["x", "y", "y", "x", "x", "y"]


def test_a_message_that_costs_more_than_at_another_commit_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Both:
        def __init__(self, kind: str, *, tree: Path, **options: Any) -> None:
            self.slower = 1.0 if tree == tmp_path else 1.1

        def __enter__(self) -> Both:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def ask(self, what: str, **options: Any) -> Any:
            if what == "one_way":
                return 200_000 / self.slower
            if what == "round_trips":
                return 3e-5
            raise Lost("it has no such order")

    monkeypatch.setattr(messages, "Pair", Both)
    monkeypatch.setattr(messages, "commit_of", lambda tree: "abc")
    told = ["--against", str(tmp_path), "--rounds", "3", "--results", str(tmp_path)]
    assert messages.main(told) == 1
    (as_json,) = tmp_path.glob("messages-*.json")
    part = json.loads(as_json.read_text())["parts"]["against"]
    assert part["status"] == "failed"
    assert [row[0] for row in part["tables"][0]["rows"]] == [
        "a tell, microseconds",
        "an ask, microseconds",
    ]
    tell = part["tables"][0]["rows"][0]
    assert tell[1:] == [pytest.approx(value) for value in (5.0, 5.5, 1.1, 1.1, 1.1)]
    assert part["notes"] == [
        "MISSED a tell, of commit abc: 1.1, bar at most 1.02",
        "an ask, of commit abc: 1, bar at most 1.02",
        "an array of 64 KB, microseconds: not measured: commit abc does not know this order",
        "an array of 1 MB, microseconds: not measured: commit abc does not know this order",
    ]


def test_a_row_is_convoy_divided_by_the_side_round_by_round() -> None:
    record = Record("t")
    record.table("t")
    messages.show(record, {"convoy": [1.0, 3.0, 3.0], "peer": [2.0, 6.0, 6.0]}, 10)
    assert record.tables[0].rows == [
        ["convoy", 30.0, 10.0, 30.0, 1.0],
        ["peer", 60.0, 20.0, 60.0, 0.5],
    ]


def test_an_end_that_dies_is_named_and_fails_its_part_only() -> None:
    def dies(record: Record, plan: messages.Plan) -> None:
        with Pair("no such kind", alone=True):
            pass

    record = Record("t")
    messages.run(record, dies, messages.Plan(Path("x"), 1, 1))
    assert record.status == "failed"
    assert record.notes == ["no such kind, end a ended with 1"]


def test_an_end_that_does_not_answer_is_stopped() -> None:
    end = messages_pair.End("convoy", "a", {}, ("sh", "-c", "exec sleep 100"))
    with pytest.raises(Lost, match="convoy, end a ended with"):
        end.hear(seconds=0.01)
    end.close()


def test_peers_that_are_missing_are_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(messages, "ACTORS", {"ray": {"no_such_module": "no-such-package"}})
    record = Record("t")
    messages.run(record, messages.actors, messages.Plan(tmp_path, 1, 1))
    assert record.status == "skipped"
    assert record.notes == [
        (
            "ray is left out: missing no-such-package; install with: python -m pip install "
            "no-such-package"
        )
    ]


def test_refused_namespaces_name_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def refusal(command: str) -> str:
        said.append(command)
        return f"{command}: no" if "link add" in command else ""

    monkeypatch.setattr(messages_pair, "_refusal", refusal)
    with messages_pair.namespaces() as refused:
        assert refused.startswith("ip link add") and refused.endswith(": no")
    assert said[-2:] == [f"ip netns del {name}" for name in messages_pair.NAMESPACES]
    assert not any("addr" in command for command in said)


@pytest.mark.slow
def test_small_messages_are_measured_between_real_processes_and_written(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.messages",
        "--parts",
        "small",
        "--rounds",
        "1",
        "--scale",
        "0.005",
    ]
    done = subprocess.run(
        [*command, "--results", str(tmp_path)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    (as_json,) = tmp_path.glob("messages-*.json")
    part = json.loads(as_json.read_text())["parts"]["small"]
    assert done.returncode == int(any("MISSED" in note for note in part["notes"])), (
        done.stdout + done.stderr
    )
    for table in part["tables"]:
        assert [row[0] for row in table["rows"]] == ["convoy", "zmq.asyncio"]
        assert all(row[1] > 0 for row in table["rows"])
    assert part["facts"]["bytes of a message"] > 20


@pytest.mark.slow
def test_encrypted_links_are_compared_with_open_ones_between_two_hosts(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.encryption",
        "--parts",
        "unlimited",
        "--rounds",
        "1",
    ]
    done = subprocess.run(
        [*command, "--results", str(tmp_path)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    (as_json,) = tmp_path.glob("encryption-*.json")
    part = json.loads(as_json.read_text())["parts"]["unlimited"]
    if part["status"] == "skipped":
        pytest.skip(part["notes"][0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert [[row[0] for row in table["rows"]] for table in part["tables"]] == [
        ["in the open", "encrypted"]
    ] * 3
    assert all(row[1] > 0 for table in part["tables"] for row in table["rows"])

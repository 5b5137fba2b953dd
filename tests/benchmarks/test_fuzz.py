"""The fuzz benchmark: readers accept valid input, and a reader that raises an undeclared exception
is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.fuzz import fuzz
from benchmarks.fuzz.fuzz import MOST_MEMORY, Guard
from benchmarks.fuzz.targets import TARGETS, Target, cut, joined
from benchmarks.helpers.report import ROOT, Record

LOG = """#9\tDONE   cov: 20 ft: 31 corp: 2/9b lim: 4096 exec/s: 9 rss: 70Mb
stat::number_of_executed_units: 9
stat::average_exec_per_sec:     4
stat::peak_rss_mb:              {peak}
"""
TAKE_SEEDS = """
import sys
from pathlib import Path
from benchmarks.fuzz.targets import TARGETS
target = TARGETS[sys.argv[1]](Path(sys.argv[2]))
assert target.seeds
for seed in target.seeds:
    try:
        target.take(seed)
    except target.declared as error:
        print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize("name", TARGETS)
def test_each_reader_accepts_valid_inputs_or_says_why_not(name: str, tmp_path: Path) -> None:
    if name == "mdb":
        pytest.importorskip("lmdb")
    # In a separate process, as in the benchmark: readers of sockets leave theirs open until the
    # process ends.
    done = subprocess.run(
        [sys.executable, "-c", TAKE_SEEDS, name, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    # An example may belong to another program, and a net of Caffe may contain layers that Convoy
    # refuses.
    if name not in ("cluster", "net"):
        assert done.stdout == ""


def test_frames_that_were_joined_are_cut_again_and_any_bytes_can_be_cut() -> None:
    frames = [b"", b"abc", bytes(300)]
    assert list(cut(joined(frames))) == frames
    assert list(cut(b"\xff\xffab")) == [b"ab"]
    assert list(cut(b"\x01")) == []


def judged(
    folder: Path, take: Callable[[bytes], object], capsys: pytest.CaptureFixture[str], *given: bytes
) -> Record:
    """The record of a reader that declares ValueError and got these inputs."""
    capsys.readouterr()
    guard = Guard(Target(take, (ValueError,), []), folder / "failures")
    for data in given:
        guard(data)
    (folder / "corpus").mkdir()
    said = capsys.readouterr().out
    record = Record("of a test")
    fuzz.told(record, said, LOG.format(peak=int(said.split()[1])), folder)
    fuzz.kept(record, said, folder / "failures", folder / "kept", "broken")
    return record


def test_a_reader_that_raises_an_undeclared_exception_fails_and_its_input_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(data: bytes) -> None:
        raise KeyError(data[:3]) if data.startswith(b"b") else ValueError("declared")

    long = b"b" + bytes(200)
    record = judged(tmp_path, broken, capsys, b"fine", b"bad", b"bad again")
    assert record.status == "failed" and record.facts["failures"] == 1  # once for each place
    assert (
        "KeyError in test_fuzz.py:" in record.notes[-1]
        and b64encode(b"bad").decode() in record.notes[-1]
    )
    (tmp_path / "long").mkdir()
    record = judged(tmp_path / "long", broken, capsys, b"fine", long)
    (kept,) = (tmp_path / "long" / "kept").iterdir()
    assert kept.read_bytes() == long and kept.name in record.notes[-1]


def test_a_reader_that_raises_only_declared_exceptions_does_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def declares(data: bytes) -> None:
        raise ValueError("declared")

    record = judged(tmp_path, declares, capsys, b"a", b"b")
    assert (record.status, record.facts["failures"]) == ("running", 0)
    assert (record.facts["executions"], record.facts["features reached"]) == (9, 31)


def test_a_reader_that_takes_memory_fails_and_the_input_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = [70]
    monkeypatch.setattr(fuzz, "peak", lambda: taken[0])

    def claims(data: bytes) -> None:
        taken[0] += len(data)

    record = judged(tmp_path, claims, capsys, b"a", bytes(MOST_MEMORY), b"b")
    assert record.status == "failed"
    assert record.notes[-1] == (
        f"{MOST_MEMORY + 1} MiB over base (base64 {b64encode(b'b').decode()})"
    )
    peak = Record("of a test")
    fuzz.told(peak, "base 70\n", LOG.format(peak=70 + MOST_MEMORY + 1), tmp_path)
    assert peak.status == "failed"


def test_a_run_in_which_nothing_was_tried_fails(tmp_path: Path) -> None:
    record = Record("of a test")
    fuzz.told(record, "", "ImportError: of the test", tmp_path)
    assert (record.status, record.notes) == ("failed", ["no input was tried"])


def test_without_the_fuzzer_all_parts_are_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "missing", lambda modules: list(modules.values()))
    assert fuzz.main(["--only", "idx,mdb", "--results", str(tmp_path)]) == 0
    (as_json,) = tmp_path.glob("fuzz-*.json")
    found = json.loads(as_json.read_text())["parts"]
    assert {part["status"] for part in found.values()} == {"skipped"}
    assert "convoy-runtime[fuzz]" in found["idx"]["notes"][0]
    with pytest.raises(SystemExit):
        fuzz.main(["--only", "nothing"])
    assert "there is no reader nothing" in capsys.readouterr().err


def test_two_seconds_of_one_reader_run_through(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="needs atheris: pip install -e '.[fuzz]'")
    assert fuzz.main(["--only", "idx", "--seconds", "2", "--results", str(tmp_path)]) == 0
    (as_json,) = tmp_path.glob("fuzz-*.json")
    found = json.loads(as_json.read_text())["parts"]["idx"]
    assert (
        found["status"] == "passed"
        and found["facts"]["executions"] > 0
        and found["facts"]["failures"] == 0
    )

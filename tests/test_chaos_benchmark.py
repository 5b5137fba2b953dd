"""The chaos benchmark itself: it tells a harm that did not happen, that nobody named, or that took too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import chaos, chaos_machines
from benchmarks.chaos_processes import kill
from benchmarks.chaos_trials import HEADERS, Absent, Harm, Trials, spread
from benchmarks.report import Record
from benchmarks.survivor import Gone, Survivor
from tests.far_machines import program


def trials(folder: Path) -> Trials:
    record = Record("of a test")
    record.table("harm", *HEADERS)
    return Trials(record, folder, "1")


def told(folder: Path, harm: Harm) -> Record:
    part = trials(folder)
    part.told(harm, named=3.0, back=10.0)
    return part.record


def test_what_happened_and_was_named_in_time_passes(tmp_path: Path) -> None:
    record = told(tmp_path, Harm("a", done=2, happened=2, named=[0.1, 0.2], back=[1.0, 2.0]))
    assert record.status == "running"
    assert record.tables[0].rows == [["a", 2, 2, 0, 0.1, 0.2, 0.2, 1.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (Harm("a", done=2, happened=1), "done 2 times, but it happened 1 times"),
        (Harm("a", done=1, happened=1, named=[3.1]), "named after 3.1 s, expected 3 s at most"),
        (Harm("a", done=1, happened=1, back=[11.0]), "went on after 11.0 s (p95), expected 10 s at most"),
        (Harm("a", done=1, happened=1, failures=["a: nobody named it"]), "nobody named it"),
    ],
)
def test_what_did_not_happen_or_took_too_long_fails(tmp_path: Path, harm: Harm, why: str) -> None:
    record = told(tmp_path, harm)
    assert record.status == "failed" and any(why in note for note in record.notes)


def test_a_trial_that_goes_wrong_is_counted_and_the_next_is_tried(tmp_path: Path) -> None:
    harm, part = Harm("a"), trials(tmp_path)
    for error in (Gone("silent"), AssertionError("named as another"), None):
        with part.counted(harm):
            if error is not None:
                raise error
            harm.happened += 1
    assert (harm.done, harm.happened, harm.failures) == (3, 1, ["a: silent", "a: named as another"])


def test_percentiles_are_times_that_were_seen() -> None:
    assert spread([float(number) for number in range(100, 0, -1)]) == [50.0, 95.0, 100.0]
    assert spread([2.0]) == [2.0, 2.0, 2.0] and spread([]) == []
    assert Harm("a").row[4:] == ["-"] * 6


def test_a_kill_of_a_process_that_was_gone_before_does_not_pass_for_a_harm_to_a_living_one() -> None:
    harm = Harm("a")
    kill(2**22 + 1, harm)  # no process has this number
    assert harm.happened == 0


def test_a_part_that_cannot_be_done_here_is_skipped_in_words_and_one_that_breaks_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_error(error: Exception) -> Callable[[Trials, int], None]:
        def do(part: Trials, times: int) -> None:
            raise error

        return do

    parts = {
        "clock": chaos.Part("The clock", with_error(Absent("no library")), (1, 1, 1)),
        "links": chaos.Part("Links", with_error(ValueError("of the test")), (1, 1, 1)),
    }
    monkeypatch.setattr(chaos, "PARTS", parts)
    assert chaos.main(["--only", "clock,links", "--results", str(tmp_path)]) == 1
    (as_json,) = tmp_path.glob("chaos-pr-*.json")
    found = json.loads(as_json.read_text())["parts"]
    assert (found["clock"]["status"], found["clock"]["notes"]) == ("skipped", ["skipped: no library"])
    assert (found["links"]["status"], found["links"]["notes"]) == ("failed", ["ValueError: of the test"])
    with pytest.raises(SystemExit):
        chaos.main(["--only", "nothing"])
    assert "no part is called nothing" in capsys.readouterr().err


def test_without_a_mount_the_disk_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin" / "mount", "echo not here >&2; exit 1").parent))
    with pytest.raises(Absent, match="no disk can be mounted: not here"), chaos_machines.small_disk(tmp_path / "disk"):
        pass


def test_what_a_run_says_is_waited_for_in_order_and_its_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('program = "absent_program"\n')
    run = Survivor(tmp_path / "cluster.toml")
    try:
        with pytest.raises(Gone, match="absent_program"):
            run.until("progress ")
        assert run.end()[0] == 2
    finally:
        run.stop()

"""The benchmarks of several processes: their verdicts on given numbers, and Convoy's side of each
once at a small size."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.allreduce import allreduce
from benchmarks.allreduce import pair as allreduce_pair
from benchmarks.allreduce.members import input_of
from benchmarks.distributed import distributed
from benchmarks.helpers.report import ROOT, Record
from benchmarks.helpers.turns import Turns


@pytest.mark.slow
def test_our_members_sum_in_the_order_of_ranks_whether_the_array_is_small_or_shared_out() -> None:
    for numbers in (1000, 1_100_000):
        seconds, digests = allreduce.convoy(3, numbers, rounds=2)
        expected = (input_of(0, numbers) + input_of(1, numbers)) + input_of(2, numbers)
        assert len(seconds) == 2
        assert digests == [hashlib.blake2b(expected, digest_size=8).hexdigest()]


def test_an_allreduce_that_misses_its_bar_or_gives_other_bits_is_reported() -> None:
    record = Record("r")
    turns = iter(["a", "b", "c", "c"])
    sides = {
        "convoy": lambda members, numbers, rounds: (
            [9.0] * allreduce.WARM + [0.6] * 3,
            [next(turns)],
        ),
        "Open MPI": lambda members, numbers, rounds: ([9.0] * allreduce.WARM + [1.0] * 3, []),
        "gloo": lambda members, numbers, rounds: ([9.0] * allreduce.WARM + [4.0] * 3, []),
    }
    record.table("t", *["column"] * 7)
    allreduce.measure(record, sides, 2, 30, turns=2)
    assert record.notes == [
        "0.60 of Open MPI's time, at most 0.5: 2 processes, 30 MB",
        "2 different sums: 2 processes, 30 MB",
    ]
    assert record.tables[0].rows == [[2, 30, 600.0, 1000.0, 4000.0, 0.6, pytest.approx(0.15)]]
    record.status = "running"
    record.notes = []
    allreduce.measure(record, {"convoy": sides["convoy"]}, 2, 30, turns=2)
    assert record.status == "running" and not record.notes


def test_the_faster_preset_is_compared_with_one_process_and_the_better_layout_of_ddp() -> None:
    record = Record("r")
    record.table("t", *["column"] * 9)
    rates = {"single": 100.0, "replicas": 80.0, "dl4j": 95.0, "DDP nchw": 50.0, "DDP nhwc": 80.0}
    sides = {name: lambda net, rate=rate: rate for name, rate in rates.items()}
    distributed.beside(record, "lenet", sides, turns=3)
    assert record.notes == [
        "lenet, replicas: 0.80 of one process, 1.00 of DDP",
        "lenet, dl4j: 0.95 of one process, 1.19 of DDP",
        "lenet: 1.19 of DDP, at least 1.25",
    ]
    assert record.tables[0].rows == [["lenet", 64, 100.0, 80.0, 95.0, 50.0, 80.0, 0.95, 95 / 80]]


@pytest.mark.slow
def test_a_run_of_two_replicas_reports_its_speed_and_its_exposed_communication() -> None:
    found = distributed.progress("lenet", "replicas", 2, 1, iterations=6, display=1)
    assert [event["iteration"] for event in found] == [3, 4, 5, 6]
    assert all(event["images_per_second"] > 0 and event["exposed_seconds"] > 0 for event in found)


@pytest.mark.slow
def test_the_members_of_two_checkouts_take_turns_and_their_sums_are_the_same_bits() -> None:
    with (
        allreduce_pair.Side(ROOT, 2, 1000) as one,
        allreduce_pair.Side(ROOT, 2, 1_100_000) as other,
    ):
        for side, numbers in ((one, 1000), (other, 1_100_000), (one, 1000)):
            seconds, digests = side.sum("digest")
            expected = hashlib.blake2b(
                input_of(0, numbers) + input_of(1, numbers), digest_size=8
            ).hexdigest()
            assert seconds > 0 and digests == {expected}
        assert one.sum()[1] == {""}


def test_a_checkout_that_cannot_run_is_reported_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "__init__.py").write_text("raise SystemExit('it is too old')")
    with (
        pytest.raises(SystemExit, match=r"did not connect:\nit is too old"),
        allreduce_pair.Side(tmp_path, 2, 1000),
    ):
        pass


def test_sums_that_take_longer_than_those_of_another_commit_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = Record("r")
    lives = iter(
        [
            ([1.0, 1.0, 2.0], [1.1, 1.1, 1.0]),
            ([2.0, 2.0, 2.0], [2.0, 2.0, 2.0]),
            ([1.0] * 3, [1.2] * 3),
        ]
    )
    begun: list[bool] = []
    monkeypatch.setattr(allreduce_pair, "commit_of", lambda tree: "abc")
    monkeypatch.setattr(
        allreduce_pair, "_life", lambda *shape, turned: begun.append(turned) or next(lives)
    )
    allreduce_pair.compare(record, Path("elsewhere"), [(2, 30)], lives=3, sums=3)
    (row,) = record.tables[0].rows
    assert row == [
        2,
        30,
        1000.0,
        pytest.approx(1200.0),
        pytest.approx(1.1),
        1.0,
        pytest.approx(1.2),
        9,
    ]
    assert begun == [False, True, False]
    assert record.notes == ["1.100 of commit abc's time, at most 1.03: 2 processes, 30 MB"]


def test_a_run_that_is_slower_than_the_run_of_another_commit_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rates = {"replicas": (100, 98), "sync": (100, 96)}
    trees: list[Sequence[Path]] = []

    def compared(
        net: str, preset: str, sides: Sequence[Path], lives: int, rounds: int, seconds: float
    ) -> list[Turns]:
        trees.append(sides)
        return [
            Turns([each] * lives * rounds, [seconds] * lives * rounds) for each in rates[preset]
        ]

    monkeypatch.setattr(distributed, "compared", compared)
    monkeypatch.setattr(distributed, "commit_of", lambda tree: "abc")
    told = [
        "--against",
        str(tmp_path),
        "--nets",
        "lenet",
        "--rounds",
        "5",
        "--results",
        str(tmp_path),
    ]
    assert distributed.main(told) == 1
    assert trees == [[tmp_path, ROOT]] * 2
    (as_text,) = tmp_path.glob("distributed-*.md")
    assert "lenet, sync: 0.960 of commit abc's speed, at least 0.97" in as_text.read_text()
    assert "replicas: 0.9" not in as_text.read_text()

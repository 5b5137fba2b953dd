"""The benchmarks of several processes: what they make of the numbers, and the sides of ours once, in small."""

from __future__ import annotations

import hashlib

import pytest

from benchmarks import allreduce, distributed
from benchmarks.allreduce_members import input_of
from benchmarks.report import Record


@pytest.mark.slow
def test_our_members_sum_in_the_order_of_ranks_whether_the_array_is_small_or_shared_out() -> None:
    for numbers in (1000, 1_100_000):
        seconds, digests = allreduce.convoy(3, numbers, rounds=2)
        expected = (input_of(0, numbers) + input_of(1, numbers)) + input_of(2, numbers)
        assert len(seconds) == 2
        assert digests == [hashlib.blake2b(expected, digest_size=8).hexdigest()]


def test_an_allreduce_that_misses_its_bar_or_gives_other_bits_is_told() -> None:
    record = Record("r")
    turns = iter(["a", "b", "c", "c"])
    sides = {
        "convoy": lambda members, numbers, rounds: ([9.0] * allreduce.WARM + [0.6] * 3, [next(turns)]),
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
    record.status, record.notes = "running", []
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

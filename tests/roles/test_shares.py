"""Shares of a batch: they make up the whole batch, none is empty, and they are in proportion to the
measured speed of the members."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.learning.batch_split import Cutting, Shares

MEMBERS = ["a", "b", "c"]


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=8), st.integers(8, 300))
def test_the_shares_make_up_the_batch_and_every_member_gets_rows(
    seconds: list[float], rows: int
) -> None:
    shares = Shares(Cutting(in_proportion=True))
    members = [f"worker-{n}" for n in range(len(seconds))]
    for name, taken in zip(members, seconds, strict=True):
        shares.seen(name, rows, taken)
    cuts = shares.cuts(members, rows)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, rows, len(members) + 1)
    assert all(low < high for low, high in itertools.pairwise(cuts))


def test_a_member_three_times_as_fast_gets_three_times_the_rows() -> None:
    shares = Shares(Cutting(in_proportion=True))
    shares.seen("a", 10, 1.0)
    shares.seen("b", 10, 3.0)
    low, cut, high = shares.cuts(["a", "b"], 400)
    assert (cut - low) / (high - cut) == pytest.approx(3, rel=0.02)


def test_shares_are_equal_until_all_members_were_measured_and_without_the_option() -> None:
    shares = Shares(Cutting(in_proportion=True))
    shares.seen("a", 10, 1.0)
    assert shares.cuts(MEMBERS, 30) == (0, 10, 20, 30)
    equal = Shares(Cutting(in_proportion=False))
    for name in MEMBERS:
        equal.seen(name, 10, 1.0 + 5 * (name == "a"))
    assert equal.cuts(MEMBERS, 31) == (0, 11, 21, 31)


def test_rows_change_only_if_that_saves_five_percent_of_a_batch() -> None:
    shares = Shares(Cutting(in_proportion=True))
    for name, rate in (("a", 104.0), ("b", 100.0)):
        shares.seen(name, 1, 1 / rate)
    assert shares.cuts(["a", "b"], 200) == (0, 100, 200)  # 102 and 98 would save 2 %
    shares.seen("a", 1, 1 / 150)  # 113 rows a second: 106 and 94 save 6 %
    changed = shares.cuts(["a", "b"], 200)
    assert changed == (0, 106, 200)
    shares.seen("a", 1, 1 / 70)  # 105: the rows stay
    assert shares.cuts(["a", "b"], 200) == changed
    shares.seen("b", 1, 1 / 200)  # 120, and so the other one is faster
    assert shares.cuts(["a", "b"], 200) == (0, 93, 200)


def test_one_slow_pass_moves_a_share_by_a_fifth_of_the_difference() -> None:
    shares = Shares(Cutting(in_proportion=True))
    for name in ("a", "b"):
        shares.seen(name, 100, 1.0)
    # one measurement of 50 rows per second: the estimate is 90 from now on
    shares.seen("a", 100, 2.0)
    assert shares.cuts(["a", "b"], 190)[1] == pytest.approx(90, abs=1)


def test_expected_speeds_count_until_all_members_were_measured() -> None:
    shares = Shares(Cutting(in_proportion=True, expected=(("a", 3e12), ("b", 1e12))))
    assert shares.cuts(["a", "b"], 42) == (0, 31, 42)
    shares.seen("a", 10, 1.0)
    assert shares.cuts(["a", "b"], 42) == (0, 31, 42)  # rows a second and FLOP/s are not compared
    shares.seen("b", 10, 1.0)
    assert shares.cuts(["a", "b"], 42) == (0, 21, 42)
    assert shares.cuts(["a", "c"], 42) == (0, 21, 42)
    equal = Shares(Cutting(expected=(("a", 3.0), ("b", 1.0))))
    assert equal.cuts(["a", "b"], 42) == (0, 21, 42)


def test_the_rows_of_each_worker_are_told_once_all_are_measured() -> None:
    shares = Shares(Cutting(in_proportion=True))
    groups = [["a", "b"]]
    assert shares.told(groups, 40) == ""
    shares.seen("a", 10, 1.0)
    shares.seen("b", 10, 3.0)
    assert shares.told(groups, 40) == "a 30, b 10"
    assert shares.told([["a"], ["b"]], 40) == ""  # each has the whole batch of its group
    assert Shares(Cutting()).told(groups, 40) == ""


def test_of_many_workers_the_fewest_and_the_most_rows_are_told() -> None:
    shares = Shares(Cutting(in_proportion=True))
    names = [f"worker-{number}" for number in range(12)]
    for number, name in enumerate(names):
        shares.seen(name, 10, 1.0 if number else 5.0)
    assert shares.told([names], 120) == "3 to 11 a worker"

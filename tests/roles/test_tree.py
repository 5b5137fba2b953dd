"""Reduction trees: every leaf once, about log_f levels, shares that make up the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.tree import TreeReducerSpec, parent_of, reduction_tree, rows_of, split

counts, fan_ins = st.integers(1, 200), st.integers(2, 9)


def leaves_of(count: int) -> list[str]:
    return [f"leaf-{n}" for n in range(count)]


def below(name: str, reducers: dict[str, TreeReducerSpec]) -> list[str]:
    """The leaves below a name, in the order in which they are summed."""
    if name not in reducers:
        return [name]
    return [leaf for child in reducers[name].children for leaf in below(child, reducers)]


def levels(count: int, fan_in: int) -> int:
    """ceil(log_fan_in(count)) by whole numbers."""
    needed, reach = 0, 1
    while reach < count:
        needed, reach = needed + 1, reach * fan_in
    return needed


@given(counts, fan_ins)
def test_every_leaf_is_counted_exactly_once_and_in_order(count: int, fan_in: int) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    reducers = {reducer.name: reducer for reducer in made}
    assert len(reducers) == len(made)
    at_root = [name for name in [*leaves_of(count), *reducers] if _parent(name, reducers, made) == "root"]
    assert len(at_root) == 1
    assert below(at_root[0], reducers) == leaves_of(count)


def _parent(name: str, reducers: dict[str, TreeReducerSpec], made: list[TreeReducerSpec]) -> str:
    return reducers[name].parent if name in reducers else parent_of(name, made, "root")


@given(counts, fan_ins)
def test_nobody_has_more_children_than_the_fan_in_or_fewer_than_two(count: int, fan_in: int) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    assert all(2 <= len(reducer.children) <= fan_in for reducer in made)
    for reducer in made:  # what children say of their parent is what parents say of their children
        for child in reducer.children:
            assert _parent(child, {r.name: r for r in made}, made) == reducer.name


@given(counts, fan_ins)
def test_no_leaf_is_deeper_than_the_logarithm_rounded_up(count: int, fan_in: int) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    reducers = {reducer.name: reducer for reducer in made}
    for leaf in leaves_of(count):
        depth, name = 0, _parent(leaf, reducers, made)
        while name != "root":
            depth, name = depth + 1, reducers[name].parent
        assert depth <= levels(count, fan_in)


def test_one_leaf_needs_no_reducer() -> None:
    assert reduction_tree(["a"], 2, "root", "sum") == []
    assert parent_of("a", [], "root") == "root"


def test_five_leaves_by_twos_as_drawn() -> None:
    assert reduction_tree(list("abcde"), 2, "root", "sum") == [
        TreeReducerSpec("sum-0", ("a", "b"), "sum-2"),
        TreeReducerSpec("sum-1", ("c", "d"), "sum-2"),
        TreeReducerSpec("sum-2", ("sum-0", "sum-1"), "sum-3"),
        TreeReducerSpec("sum-3", ("sum-2", "e"), "root"),
    ]


@pytest.mark.parametrize("fan_in", [1, 0, -3])
def test_a_fan_in_under_two_is_refused(fan_in: int) -> None:
    with pytest.raises(ValueError, match=f"fan_in is {fan_in}, expected at least 2"):
        reduction_tree(["a", "b"], fan_in, "root", "sum")


@given(st.integers(0, 1000), st.integers(1, 50))
def test_shares_are_whole_differ_by_one_at_most_and_the_larger_come_first(total: int, parts: int) -> None:
    shares = split(total, parts)
    assert (len(shares), sum(shares)) == (parts, total)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


@given(st.integers(1, 40), st.integers(0, 300))
def test_the_members_rows_follow_one_another_and_make_up_the_batch(members: int, rows: int) -> None:
    ranges = [rows_of(rank, members, rows) for rank in range(members)]
    assert [row for low, high in ranges for row in range(low, high)] == list(range(rows))
    assert [high - low for low, high in ranges] == split(rows, members)

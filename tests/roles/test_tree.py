"""Reduction trees: every leaf once, about log_f levels, and shares that make up the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.learning.tree import (
    TreeReducerSpec,
    forest,
    parents,
    reducers_needed,
    reduction_tree,
    split,
    split_by,
)

counts = st.integers(1, 200)
fan_ins = st.integers(2, 9)


def leaves_of(count: int) -> list[str]:
    return [f"leaf-{n}" for n in range(count)]


def below(name: str, reducers: dict[str, TreeReducerSpec]) -> list[str]:
    """The leaves below a name, in the order in which they are summed."""
    if name not in reducers:
        return [name]
    return [leaf for child in reducers[name].children for leaf in below(child, reducers)]


def levels(count: int, fan_in: int) -> int:
    """ceil(log_fan_in(count)), computed with whole numbers."""
    needed = 0
    reach = 1
    while reach < count:
        needed = needed + 1
        reach = reach * fan_in
    return needed


@given(counts, fan_ins)
def test_every_leaf_is_counted_exactly_once_and_in_order(count: int, fan_in: int) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    reducers = {reducer.name: reducer for reducer in made}
    assert len(reducers) == len(made)
    at_root = [name for name, parent in above(count, made).items() if parent == "root"]
    assert len(at_root) == 1
    assert below(at_root[0], reducers) == leaves_of(count)


def above(count: int, made: list[TreeReducerSpec]) -> dict[str, str]:
    """The parent of every leaf and reducer."""
    found = parents(leaves_of(count), made, "root")
    return {name: place.name for name, place in found.items()}


@given(counts, fan_ins)
def test_no_reducer_has_more_children_than_the_fan_in_or_fewer_than_two(
    count: int, fan_in: int
) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    assert all(2 <= len(reducer.children) <= fan_in for reducer in made)
    found = above(count, made)
    # the children's view of their parents equals the parents' view of their children
    for reducer in made:
        assert {found[child] for child in reducer.children} == {reducer.name}


@given(counts, fan_ins)
def test_no_leaf_is_deeper_than_the_logarithm_rounded_up(count: int, fan_in: int) -> None:
    made = reduction_tree(leaves_of(count), fan_in, "root", "sum")
    found = above(count, made)
    for leaf in leaves_of(count):
        depth = 0
        name = found[leaf]
        while name != "root":
            depth = depth + 1
            name = found[name]
        assert depth <= levels(count, fan_in)


def test_one_leaf_needs_no_reducer() -> None:
    assert reduction_tree(["a"], 2, "root", "sum") == []
    assert parents(["a"], [], "root") == {"a": ("root", 0, 1)}


def test_five_leaves_by_twos_as_in_the_drawing() -> None:
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
def test_shares_are_whole_differ_by_one_at_most_and_the_larger_come_first(
    total: int, parts: int
) -> None:
    shares = split(total, parts)
    assert (len(shares), sum(shares)) == (parts, total)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


@given(st.integers(1, 40), st.integers(2, 7))
def test_every_node_knows_its_place_at_its_parent_and_the_places_are_the_order_of_the_children(
    leaves: int, fan_in: int
) -> None:
    names = [f"leaf-{n}" for n in range(leaves)]
    reducers = reduction_tree(names, fan_in, "root", "sum")
    found = parents(names, reducers, "root")
    assert found.keys() == {*names, *(reducer.name for reducer in reducers)}
    for reducer in reducers:
        assert [found[child] for child in reducer.children] == [
            (reducer.name, part, len(reducer.children)) for part in range(len(reducer.children))
        ]
    assert [place for place in found.values() if place.name == "root"] == [("root", 0, 1)]


def test_without_reducers_the_root_adds_up_all_leaves() -> None:
    assert parents(["a", "b", "c"], [], "root") == {
        "a": ("root", 0, 3),
        "b": ("root", 1, 3),
        "c": ("root", 2, 3),
    }


def test_a_single_group_has_the_root_as_its_last_reducer() -> None:
    assert forest([["a", "b"]], 2, "root", []) == {"a": ("root", 0, 2), "b": ("root", 1, 2)}
    assert forest([list("abcde")], 2, "root", ["r", "s", "t"]) == {
        "a": ("r", 0, 2), "b": ("r", 1, 2), "c": ("s", 0, 2), "d": ("s", 1, 2),
        "r": ("t", 0, 2), "s": ("t", 1, 2), "t": ("root", 0, 2), "e": ("root", 1, 2),
    }  # fmt: skip
    assert [reducers_needed([["w"] * size], 2) for size in (1, 2, 3, 4, 5)] == [0, 0, 1, 2, 3]


def test_groups_that_share_the_root_and_hosts_that_send_to_it_have_separate_reducers() -> None:
    assert forest([["a", "b"], ["c"]], 2, "root", ["r"]) == {
        "a": ("r", 0, 2), "b": ("r", 1, 2), "r": ("root", 0, 1), "c": ("root", 0, 1),
    }  # fmt: skip
    homes = {"a": "host", "b": "host"}
    assert forest([["a", "b"]], 2, "root", ["r"], homes)["r"] == ("root", 0, 1)
    assert reducers_needed([["a", "b"]], 2, homes) == 1


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30).flatmap(
        lambda weights: st.tuples(st.just(weights), st.integers(1, len(weights)))
    )
)
def test_blocks_by_weight_take_everything_and_none_is_empty(
    made: tuple[list[float], int],
) -> None:
    weights, parts = made
    sizes = split_by(weights, parts)
    assert len(sizes) == parts
    assert sum(sizes) == len(weights)
    assert min(sizes) >= 1


def test_blocks_by_weight_have_sums_that_are_as_even_as_possible() -> None:
    assert split_by([5, 1, 1, 1, 1, 1], 2) == [1, 5]
    assert split_by([1, 1, 1, 3], 2) == [3, 1]
    assert split_by([2, 2, 1, 1, 1, 1], 2) == [2, 4]
    assert split_by([9, 1, 1], 3) == [1, 1, 1]
    assert split_by([1] * 8, 4) == [2, 2, 2, 2]

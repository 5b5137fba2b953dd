"""The tree of workers: its shape for any number of workers and any fan-in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.exchange.binomial import Position, place_of

MEMBERS = st.integers(1, 200)
FAN_IN = st.integers(2, 9)


def tree(members: int, fan_in: int) -> list[Position]:
    return [place_of(rank, members, fan_in) for rank in range(members)]


def test_the_tree_of_eight_is_the_binomial_tree() -> None:
    assert tree(8, 2) == [
        (None, ((1,), (2,), (4,))),
        (0, ()),
        (0, ((3,),)),
        (2, ()),
        (0, ((5,), (6,))),
        (4, ()),
        (4, ((7,),)),
        (6, ()),
    ]


@given(MEMBERS, FAN_IN)
def test_every_member_but_the_first_has_one_parent_that_knows_it_and_has_a_lower_rank(
    members: int, fan_in: int
) -> None:
    places = tree(members, fan_in)
    for rank, place in enumerate(places):
        assert (place.parent is None) == (rank == 0)
        assert place.parent is None or place.parent < rank
    told = [
        (child, rank)
        for rank, place in enumerate(places)
        for level in place.levels
        for child in level
    ]
    assert sorted(told) == [
        (rank, place.parent) for rank, place in enumerate(places) if place.parent is not None
    ]


@given(MEMBERS, FAN_IN)
def test_at_no_level_a_member_receives_from_more_than_fan_in_minus_1_and_there_are_log_levels(
    members: int, fan_in: int
) -> None:
    levels = 0
    while fan_in**levels < members:
        levels += 1
    places = tree(members, fan_in)
    assert max(len(place.levels) for place in places) == levels == len(places[0].levels)
    assert all(1 <= len(level) <= fan_in - 1 for place in places for level in place.levels)


@given(MEMBERS, FAN_IN)
def test_a_member_adds_up_neighbours_in_the_order_of_ranks(members: int, fan_in: int) -> None:
    """The order of summation is the order of the ranks, in groups."""
    places = tree(members, fan_in)

    def below(rank: int) -> list[int]:
        return [
            rank,
            *(found for level in places[rank].levels for child in level for found in below(child)),
        ]

    assert below(0) == list(range(members))


@pytest.mark.parametrize("fan_in", [2, 3, 4])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_with_one_interface_each_a_sum_takes_the_levels_times_fan_in_minus_1_each_way(
    fan_in: int, levels: int
) -> None:
    """Each member sends one array at a time and receives one at a time. For fan_in 2 this is
    equation 4 of FireCaffe."""
    members = fan_in**levels
    places = tree(members, fan_in)

    def complete(rank: int) -> int:
        """The time at which a member has the sum of all members below it."""
        now = 0
        for level in places[rank].levels:
            for ready in sorted(complete(child) for child in level):
                now = max(now, ready) + 1
        return now

    def told(rank: int, since: int) -> int:
        """The time at which all members below one have the whole sum, if it has the sum at
        `since`."""
        last = now = since
        for level in reversed(places[rank].levels):
            for child in level:
                now += 1
                last = max(last, told(child, now))
        return last

    steps = (fan_in - 1) * levels
    assert complete(0) == told(0, 0) == steps
    assert fan_in != 2 or steps == math.log2(members)


def test_a_fan_in_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="fan_in is 1, expected at least 2"):
        place_of(0, 4, 1)

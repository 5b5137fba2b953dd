"""The shape of a reduction tree whose nodes are the workers themselves (FireCaffe, section 6.2).
Ranks only.

In base `fan_in`, the place of a rank's lowest digit other than 0 is the level at which it sends.
Its parent is the rank with a 0 there. With fan_in 2 that is the binomial tree: at level l every
2**(l + 1)-th rank receives from the one 2**l above.

    8 members, fan_in 2
        level 0: 1 -> 0, 3 -> 2, 5 -> 4, 7 -> 6
        level 1: 2 -> 0, 6 -> 4
        level 2: 4 -> 0

Members of several hosts make such a tree in each host, and the first members of the hosts make one
between the hosts. So one sum leaves each host, and one comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Position(NamedTuple):
    """A member's place in the tree: its parent, which gets its sum (None: it is the root, and has
    the whole), and its children.

    `levels`: the children of each level in the order of ranks. The level that sends first comes
    first.
    """

    parent: int | None
    levels: tuple[tuple[int, ...], ...]


def place_of(rank: int, members: int, fan_in: int) -> Position:
    """The place of `rank` among `members`. At each of ceil(log_fan_in(members)) levels, fan_in - 1
    members send to one. Raises ValueError if `fan_in` is below 2."""
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}, expected at least 2")
    levels: list[tuple[int, ...]] = []
    stride = 1
    while stride < members:
        digit = rank // stride % fan_in
        if digit:
            return Position(rank - digit * stride, tuple(levels))
        children = range(rank + stride, min(rank + fan_in * stride, members), stride)
        if children:
            levels.append(tuple(children))
        stride *= fan_in
    return Position(None, tuple(levels))


class Place(NamedTuple):
    """The `Position` of a member, with names in place of ranks. The parent of the root is None."""

    parent: str | None
    levels: tuple[tuple[str, ...], ...]


def place_over(hosts: Sequence[Sequence[str]], name: str, fan_in: int) -> Place:
    """The place of a member in the trees of all `hosts`, each of which is given as its members by
    rank."""
    host = next(members for members in hosts if name in members)
    inside = _named(host, name, fan_in)
    if inside.parent is not None:
        return inside
    between = _named([members[0] for members in hosts], name, fan_in)
    return Place(between.parent, inside.levels + between.levels)


def _named(members: Sequence[str], name: str, fan_in: int) -> Place:
    parent, levels = place_of(members.index(name), len(members), fan_in)
    named = tuple(tuple(members[child] for child in children) for children in levels)
    return Place(None if parent is None else members[parent], named)

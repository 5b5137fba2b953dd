"""The parent of each worker and reducer in a reduction tree (FireCaffe section 6). Names only."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

ALIKE: Mapping[str, str] = MappingProxyType({})  # all leaves are on one host


@dataclass(frozen=True)
class TreeReducerSpec:
    """A reducer: it sums the gradients of its `children`, in this order, and sends the sum to
    `parent`."""

    name: str
    children: tuple[str, ...]
    parent: str


def reduction_tree(
    leaves: list[str], fan_in: int, root: str, prefix: str, homes: Mapping[str, str] = ALIKE
) -> list[TreeReducerSpec]:
    """The reducers between `leaves` and `root`, called `<prefix>-<n>`: about log_fan_in(leaves)
    levels.

    Every level takes its children in order, `fan_in` at a time. A child left alone moves up a
    level. One leaf needs no reducer: it sends to `root` itself. `homes`: leaf -> its host. The
    leaves of one host are summed before their sum is added to others.
    """
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}, expected at least 2")
    made: list[tuple[str, tuple[str, ...]]] = []

    def summed(level: list[str]) -> list[str]:
        while len(level) > 1:
            above: list[str] = []
            for start in range(0, len(level), fan_in):
                children = tuple(level[start : start + fan_in])
                if len(children) == 1:
                    above.append(children[0])
                else:
                    above.append(f"{prefix}-{len(made)}")
                    made.append((above[-1], children))
            level = above
        return level

    hosts: dict[str, list[str]] = {}
    for leaf in leaves:
        hosts.setdefault(homes.get(leaf, ""), []).append(leaf)
    summed([name for members in hosts.values() for name in summed(members)])
    parents = {child: name for name, children in made for child in children}
    return [TreeReducerSpec(name, children, parents.get(name, root)) for name, children in made]


class Parent(NamedTuple):
    """The parent that gets a node's gradients, and the place of these among its parts."""

    name: str
    part: int
    parts: int


def parents(
    leaves: Sequence[str], reducers: Sequence[TreeReducerSpec], root: str
) -> dict[str, Parent]:
    """The parent of every leaf and reducer. Without reducers, `root` adds up all the leaves."""
    found = {
        child: Parent(reducer.name, part, len(reducer.children))
        for reducer in reducers
        for part, child in enumerate(reducer.children)
    }
    top = [name for name in (*leaves, *(reducer.name for reducer in reducers)) if name not in found]
    return found | {name: Parent(root, part, len(top)) for part, name in enumerate(top)}


def forest(
    groups: Sequence[Sequence[str]],
    fan_in: int | None,
    root: str,
    reducers: Sequence[str],
    homes: Mapping[str, str] = ALIKE,
) -> dict[str, Parent]:
    """The parent of every worker and of every needed reducer, with one tree in each group. Without
    a `fan_in`, all workers of a group are children of the root.

    Several groups share the root, so each group has a reducer of its own before it. A group also
    has one if its workers live on several hosts, or on another host than the root: one sum leaves
    each host. If there is one group on one host, the root is its last reducer: with two LeNet
    workers on two cores, a process between them took 6 % of an iteration.

    `reducers` are names to choose from, in order. Raises ValueError if they are too few
    (`reducers_needed`). `homes`: as in `reduction_tree`.
    """
    left = list(reducers)
    found = {}
    for members in groups:
        made = [] if fan_in is None else reduction_tree(list(members), fan_in, root, "", homes)
        last = {reducer.name: root for reducer in made[-1:] if _alone(groups, homes)}
        if len(made) - len(last) > len(left):
            raise ValueError(
                f"{len(reducers)} reducers are too few for groups of "
                f"{[len(group) for group in groups]}"
            )
        names = last | {reducer.name: left.pop(0) for reducer in made if reducer.name not in last}
        for child, parent in parents(members, made, root).items():
            if child not in last:
                found[names.get(child, child)] = parent._replace(
                    name=names.get(parent.name, parent.name)
                )
    return found


def reducers_needed(
    groups: Sequence[Sequence[str]], fan_in: int | None, homes: Mapping[str, str] = ALIKE
) -> int:
    """The number of reducers that a `forest` over these groups needs."""
    if fan_in is None:
        return 0
    needed = sum(len(reduction_tree(list(members), fan_in, "", "", homes)) for members in groups)
    return needed - 1 if needed and _alone(groups, homes) else needed


def _alone(groups: Sequence[Sequence[str]], homes: Mapping[str, str]) -> bool:
    """True if the root is the last reducer of these groups."""
    return len(groups) == 1 and not homes


def split_by(weights: Sequence[float], parts: int) -> list[int]:
    """The numbers of neighbours in `parts` blocks with sums of `weights` as even as possible. Each
    block has one at least."""
    sums = list(itertools.accumulate(weights, initial=0.0))
    cuts = [0]
    for part in range(1, parts):
        among = range(cuts[-1] + 1, len(weights) - (parts - part) + 1)
        wanted = sums[-1] * part / parts
        cuts.append(min(among, key=lambda cut: abs(sums[cut] - wanted)))
    return [high - low for low, high in itertools.pairwise((*cuts, len(weights)))]


def split(total: int, parts: int) -> list[int]:
    """`total` things in `parts` parts, as even as whole numbers allow, larger parts first."""
    share, rest = divmod(total, parts)
    return [share + (index < rest) for index in range(parts)]

"""Workers in groups, and the trees from them to a model server, for presets with model servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from roles.coordination.regroup import FIXED, Live, LiveTree
from roles.learning.tree import forest, reducers_needed, split, split_by
from roles.presets.request import COORDINATOR, Request
from roles.servers.tree_reducer import ReducerOptions
from runtime.plan.topology import ActorSpec, Link


def with_groups(request: Request, groups: int) -> Request:
    """The same request with this number of groups."""
    return dataclasses.replace(
        request, strategy=request.strategy.model_copy(update={"groups": groups})
    )


def groups_of(request: Request) -> list[list[str]]:
    """The names of the workers of each group. A pipeline multiplies the workers and the groups
    (Omnivore, appendix D.4.2)."""
    groups = request.strategy.groups
    sizes = split_by(request.speeds, groups) if request.speeds else split(request.workers, groups)
    return [
        [f"conv-{group * request.strategy.pipeline + turn}-{rank}" for rank in range(members)]
        for group, members in enumerate(sizes)
        for turn in range(request.strategy.pipeline)
    ]


def process_of(request: Request, group: int, rank: int) -> str:
    """The process that a worker shares with the other groups of its pipeline; "" without a
    pipeline."""
    pipeline = request.strategy.pipeline
    return f"workers-{group // pipeline}-{rank}" if pipeline > 1 else ""


class Tree:
    """The reduction trees of all groups to one model server. Without a `fan_in` the server itself
    adds up.

    `mark` distinguishes the names of its reducers from those of other servers. With several hosts,
    the gradients of each host are summed there: every reducer lives on the host of the first worker
    below it. Where groups can be changed, trees do not depend on hosts, and reducers that the
    first groups do not use live on hosts at equal distances.
    """

    def __init__(self, request: Request, server: str, fan_in: int | None, mark: str = "") -> None:
        self.server = server
        self.fan_in = fan_in
        self.live = request.strategy.live
        self._groups = groups_of(request)
        self.workers = [name for members in self._groups for name in members]
        self._far = bool(request.homes)
        self._homes = {} if self.live else request.homes
        self.reducers = [f"reducer{mark}-{number}" for number in range(self._needed())]
        self.places = forest(self._groups, fan_in, server, self.reducers, self._homes)

    def __repr__(self) -> str:
        return (
            f"<{len(self.reducers)} reducers between {len(self.workers)} workers and {self.server}>"
        )

    def _needed(self) -> int:
        """The number of reducers for these groups, or for any groups where they can be changed."""
        if not self.live:
            return reducers_needed(self._groups, self.fan_in, self._homes)
        shapes = [split(len(self.workers), groups) for groups in range(1, len(self.workers) + 1)]
        return max(
            reducers_needed([["worker"] * size for size in sizes], self.fan_in) for sizes in shapes
        )

    def actors(self) -> list[ActorSpec]:
        """The reducers."""
        made = []
        beside = self._beside()
        for name in self.reducers:
            place = self.places.get(name)
            parent, part, parts = (self.server, 0, 1) if place is None else place
            options = ReducerOptions(
                parent=parent, part=part, parts=parts, beside=beside.get(name, "")
            )
            made.append(ActorSpec(name, "tree_reducer", options))
        return made

    def _beside(self) -> dict[str, str]:
        """Reducer -> the first worker below it. On the first machine, all reducers together would
        get each gradient through its one link."""
        found: dict[str, str] = {}
        if not self._far:
            return found
        for worker in self.workers:
            name = self.places[worker].name
            while name in self.places:
                found.setdefault(name, worker)
                name = self.places[name].name
        for number, name in enumerate(self.reducers):
            found.setdefault(name, self.workers[number * len(self.workers) // len(self.reducers)])
        return found

    def links(self) -> list[Link]:
        """The links on which gradients travel, or may travel where groups can be changed."""
        if not self.live:
            return [(name, parent.name) for name, parent in self.places.items()]
        among = [
            (one, other)
            for index, one in enumerate(self.reducers)
            for other in self.reducers[index + 1 :]
        ]
        inward = [(name, to) for name in self.workers for to in (*self.reducers, self.server)]
        outward = [
            (reducer, end) for reducer in self.reducers for end in (COORDINATOR, self.server)
        ]
        return [*inward, *among, *outward]


def live_of(request: Request, trees: Sequence[Tree]) -> Live:
    """The groups that the run may change to, for the coordinator."""
    if not request.strategy.live:
        return FIXED
    return Live(
        tuple(trees[0].workers),
        {tree.server: LiveTree(tree.fan_in, tuple(tree.reducers)) for tree in trees},
    )

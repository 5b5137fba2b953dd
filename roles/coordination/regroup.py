"""Other groups, workers, rates and batches while a run goes on: what may be asked, and who must be
told. Plain decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roles.learning.batch_split import Shares
from roles.learning.tree import forest, split
from roles.messages import Place, Probe, Regroup, Release
from runtime import MessageError

Wish = Regroup | Probe | Release  # of other groups, workers, rates and batches


@dataclass(frozen=True)
class LiveTree:
    """The trees to a model server: their fan-in, and the names of reducers to choose from."""

    fan_in: int | None
    reducers: tuple[str, ...]


@dataclass(frozen=True)
class Live:
    """What a topology is prepared for: all `workers`, and the trees to each model server; none:
    nobody can be regrouped."""

    workers: tuple[str, ...] = ()
    trees: Mapping[str, LiveTree] = field(default_factory=dict)

    def groups(
        self, wish: Wish, now: Sequence[Sequence[str]], shares: Shares, rows: int
    ) -> list[list[str]]:
        """The workers of each group that is wished for. MessageError in words if it cannot be."""
        if not wish.workers and not wish.groups:
            return [list(members) for members in now]
        workers = wish.workers or sum(map(len, now))
        groups = wish.groups or len(now)
        if not self.trees:
            raise impossible("this run was not prepared for it: train.strategy.live = true")
        if not 1 <= workers <= len(self.workers):
            raise impossible(
                f"found {workers} workers, expected 1 to {len(self.workers)}, "
                "those that were started"
            )
        if not 1 <= groups <= workers:
            raise impossible(f"found {groups} groups, expected 1 to {workers}, the workers")
        names = iter(self.workers)
        made = [[next(names) for _ in range(size)] for size in split(workers, groups)]
        for members in made:
            problem = shares.problem(len(members), rows)
            if problem:
                raise impossible(problem)
        return made

    def places(self, groups: Sequence[Sequence[str]]) -> list[tuple[str, Place]]:
        """Everybody whose gradients go elsewhere or as another part, and where."""
        return [
            (name, Place(server=server, parent=parent.name, part=parent.part, parts=parent.parts))
            for server, tree in self.trees.items()
            for name, parent in forest(groups, tree.fan_in, server, tree.reducers).items()
        ]


def gone_on(known: str, planned: Mapping[str, float]) -> Regroup | None:
    """What a run goes on with that was planned as the one that wrote `known`: a JSON list of what
    that one was planned with, and what it had become. What is planned otherwise now counts. None:
    nothing."""
    try:
        before, after = json.loads(known or "[{}, {}]")
        changed = (
            {key: after[key] for key in planned if before[key] == planned[key] != after[key]}
            if before
            else {}
        )
        return Regroup(**changed) if changed else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


FIXED = Live()  # what it is at the start, it stays


def impossible(why: str) -> MessageError:
    """The error that whoever asked for other groups or rates is told: the wish is legal, but cannot
    be fulfilled."""
    return MessageError("bad_value", f"regroup: {why}")

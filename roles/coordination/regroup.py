"""Changes of groups, workers, rates and batch while a run goes on: which are possible, and which
actors must know. Decisions only, no messages are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roles.learning.batch_split import Shares
from roles.learning.tree import forest, split
from roles.messages import Place, Probe, Regroup, Release
from runtime import MessageError

SUITED = "suited_momentum"  # the momentum for one group, if momentum follows the groups
Wish = Regroup | Probe | Release  # requests for other groups, workers, rates and batches


@dataclass(frozen=True)
class LiveTree:
    """The trees to a model server: their fan-in, and the names of reducers to choose from."""

    fan_in: int | None
    reducers: tuple[str, ...]


@dataclass(frozen=True)
class Live:
    """The changes that a topology is prepared for: all `workers` that were started, and the trees
    to each model server. Without trees, the groups cannot change."""

    workers: tuple[str, ...] = ()
    trees: Mapping[str, LiveTree] = field(default_factory=dict)

    def groups(
        self, wish: Wish, now: Sequence[Sequence[str]], shares: Shares, rows: int
    ) -> list[list[str]]:
        """The workers of each group after this request. Raises MessageError with the reason if it
        is impossible."""
        if not wish.workers and not wish.groups:
            return [list(members) for members in now]
        workers = wish.workers or sum(map(len, now))
        groups = wish.groups or len(now)
        if not self.trees:
            raise impossible("this run was not prepared for it: set train.strategy.live = true")
        if not 1 <= workers <= len(self.workers):
            raise impossible(
                f"found {workers} workers, expected 1 to {len(self.workers)}, "
                "the workers that were started"
            )
        if not 1 <= groups <= workers:
            raise impossible(
                f"found {groups} groups, expected 1 to {workers}, one per worker at most"
            )
        names = iter(self.workers)
        made = [[next(names) for _ in range(size)] for size in split(workers, groups)]
        for members in made:
            problem = shares.problem(len(members), rows)
            if problem:
                raise impossible(problem)
        return made

    def places(self, groups: Sequence[Sequence[str]]) -> list[tuple[str, Place]]:
        """The place of every actor that sends gradients in these groups."""
        return [
            (name, Place(server=server, parent=parent.name, part=parent.part, parts=parent.parts))
            for server, tree in self.trees.items()
            for name, parent in forest(groups, tree.fan_in, server, tree.reducers).items()
        ]


def gone_on(known: str, planned: Mapping[str, float]) -> Regroup | None:
    """The settings that a resumed run takes over from the run that wrote `known`; None if there are
    none.

    `known` is a JSON list of the settings that were planned, and of the settings that the run had
    in the end. A setting that is planned differently now is not taken over. A momentum that follows
    the number of groups is compared by the momentum `SUITED` that it follows from, and is not taken
    over, since the number of groups gives it.
    """
    try:
        before, after = json.loads(known or "[{}, {}]")
        changed = (
            {
                key: after[key]
                for key in planned
                if key != SUITED
                and _meant(before, key) == _meant(planned, key) != _meant(after, key)
            }
            if before
            else {}
        )
        return Regroup(**changed) if changed else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def followed(known: str) -> bool:
    """True if the run that wrote `known` began with a momentum that follows its groups. False if
    `known` is empty or cannot be read: the run had no such momentum."""
    try:
        before, _ = json.loads(known or "[{}, {}]")
        return SUITED in before
    except (ValueError, TypeError, RecursionError):
        return False


def _meant(settings: Mapping[str, float], key: str) -> float:
    """The value of a setting that does not depend on the number of groups."""
    return settings.get(SUITED, settings[key]) if key == "momentum" else settings[key]


FIXED = Live()  # the groups stay as they are at the start


def impossible(why: str) -> MessageError:
    """The error for a request that is legal, but cannot be fulfilled."""
    return MessageError("bad_value", f"regroup: {why}")

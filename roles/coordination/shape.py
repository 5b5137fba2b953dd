"""The groups and rates of a run as they are now, and telling everybody who must know of others."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from nets import NetError, SolverSpec
from roles.coordination.grouping import Grouping
from roles.coordination.regroup import Live, Wish, impossible
from roles.learning.batch_split import Shares
from roles.messages import Done, Rates
from runtime import Actor, Message

Settings = tuple[list[list[str]], SolverSpec]  # the workers of each group, and the rates


class Shape:
    """Of the run of one coordinator. `holders` hold parameters; `live` is what the run can become; `rows` are the least
    of any batch, which is cut among the members of a group."""

    def __init__(
        self,
        actor: Actor,
        groups: Sequence[Sequence[str]],
        solver: SolverSpec,
        *,
        holders: Sequence[str],
        live: Live,
        shares: Shares,
        rows: int,
    ) -> None:
        self._actor, self._holders, self._live, self._shares, self._rows = actor, tuple(holders), live, shares, rows
        self.grouping, self.solver = Grouping(groups), solver

    def __repr__(self) -> str:
        return f"<{self.grouping!r}, {self.rates!r}>"

    @property
    def settings(self) -> Settings:
        """What is now."""
        return [list(members) for members in self.grouping.groups], self.solver

    @property
    def sizes(self) -> list[int]:
        """Workers of each group."""
        return [len(members) for members in self.grouping.groups]

    @property
    def rates(self) -> Rates:
        """Those of the solver."""
        return _rates(self.solver)

    def wanted(self, wish: Wish) -> Settings:
        """What it would become. MessageError in words if it cannot be."""
        given = {"base_lr": wish.base_lr, "momentum": wish.momentum}
        for name, rate in given.items():
            if not math.isfinite(rate):
                raise impossible(f"found {name} {rate}, expected a finite number")
        try:
            solver = self.solver.override({name: value for name, value in given.items() if value >= 0})
        except NetError as error:
            raise impossible(str(error)) from None
        return self._live.groups(wish, self.grouping.groups, self._shares, self._rows), solver

    async def become(self, wanted: Settings) -> bool:
        """Nothing is under way: tell everybody who must know of it. Whether anything is other than before."""
        before, rates = self.settings, self.rates
        groups, self.solver = wanted
        told: list[tuple[str, Message]] = []
        now = self.rates
        if other_rates := (now.base_lr, now.momentum) != (rates.base_lr, rates.momentum):
            told += [(name, now) for name in self._holders]
        if groups != before[0]:
            told += self._live.places(groups)
            self.grouping = Grouping(groups)
        await asyncio.gather(*(self._actor.ask(name, what, Done) for name, what in told))
        return other_rates or groups != before[0]

    def tell(self, iteration: int) -> None:
        """An event says what is from this iteration on."""
        now = {"iteration": iteration, "workers": sum(self.sizes), "groups": len(self.sizes)}
        self._actor.emit("regrouped", **now, base_lr=self.rates.base_lr, momentum=self.rates.momentum)


def _rates(solver: SolverSpec) -> Rates:
    return Rates(base_lr=solver.proto.base_lr, momentum=solver.proto.momentum)

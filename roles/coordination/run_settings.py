"""The groups, rates and batch of a run as they are now, and telling everybody who must know of
others."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nets import NetError, SolverSpec
from roles.coordination.grouping import Grouping
from roles.coordination.regroup import Live, Wish, gone_on, impossible
from roles.learning.batch_split import Shares
from roles.messages import Done, Rates, Regroup
from runtime import Actor, Envelope, Message, MessageError
from runtime.messages.message import Refusal

BECAME = "became"  # in a checkpoint's metadata


class Settings(NamedTuple):
    """The workers of each group, the rates, the images of a group's batch."""

    groups: list[list[str]]
    solver: SolverSpec
    batch: int


class RunSettings:
    """Of the run of one coordinator. `holders` hold parameters; `live` is what the run can become;
    `rows` are the least of any batch, which is cut among the members of a group. `batches` are the
    images of a batch at the beginning, and at most."""

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
        batches: tuple[int, int],
    ) -> None:
        self._actor = actor
        self._holders = tuple(holders)
        self._live = live
        self._shares = shares
        self._rows = rows
        self.grouping = Grouping(groups)
        self.solver = solver
        (self.batch, _) = self._batches = batches
        self._asked: deque[tuple[Regroup, Envelope]] = deque()
        self._planned = self._now()

    def __repr__(self) -> str:
        return f"<{self.grouping!r}, {self.rates!r}>"

    @property
    def settings(self) -> Settings:
        """What is now."""
        return Settings(
            [list(members) for members in self.grouping.groups], self.solver, self.batch
        )

    @property
    def sizes(self) -> list[int]:
        """Workers of each group."""
        return [len(members) for members in self.grouping.groups]

    @property
    def rates(self) -> Rates:
        """Those of the solver, with the batch."""
        proto = self.solver.proto
        return Rates(base_lr=proto.base_lr, momentum=proto.momentum, batch=self.batch)

    def wanted(self, wish: Wish) -> Settings:
        """What it would become. MessageError in words if it cannot be."""
        given = {"base_lr": wish.base_lr, "momentum": wish.momentum}
        for name, rate in given.items():
            if not math.isfinite(rate):
                raise impossible(f"found {name} {rate}, expected a finite number")
        try:
            solver = self.solver.override(
                {name: value for name, value in given.items() if value >= 0}
            )
        except NetError as error:
            raise impossible(str(error)) from None
        least, most = self._batches
        if wish.batch and not least <= wish.batch <= most:
            planned = (
                f"{least} to {most}"
                if least < most
                else (f"{least}, since train.batch is not 'auto'")
            )
            raise impossible(f"found a batch of {wish.batch} images, expected {planned}")
        groups = self._live.groups(wish, self.grouping.groups, self._shares, self._rows)
        return Settings(groups, solver, wish.batch or self.batch)

    def hear(self, message: Regroup, envelope: Envelope) -> None:
        """Somebody wants it once nothing is under way. MessageError in words if it cannot be."""
        self.wanted(message)
        self._asked.append((message, envelope))

    async def change(self, iteration: int) -> None:
        """Nothing is under way: become what was asked for, one after the other, and answer who
        asked."""
        while self._asked:
            wish, envelope = self._asked.popleft()
            try:
                wanted = self.wanted(wish)
            except MessageError as error:
                # it could be when it was asked for; another wish came first
                await self._actor.reply(envelope, Refusal(error=str(error)))
                continue
            await self.become(wanted)
            self.tell(iteration)
            await self._actor.reply(envelope, Done())

    async def become(self, wanted: Settings) -> bool:
        """Nothing is under way: tell everybody who must know of it. Whether anything is other than
        before."""
        before = self.settings
        rates = self.rates
        groups, self.solver, self.batch = wanted
        told: list[tuple[str, Message]] = []
        now = self.rates
        if other_rates := (now.base_lr, now.momentum, now.batch) != (
            rates.base_lr,
            rates.momentum,
            rates.batch,
        ):
            told += [(name, now) for name in self._holders]
        if groups != before.groups:
            told += self._live.places(groups)
            self.grouping = Grouping(groups)
        await asyncio.gather(*(self._actor.ask(name, what, Done) for name, what in told))
        return other_rates or groups != before.groups

    def tell(self, iteration: int) -> None:
        """An event says what is from this iteration on."""
        self._actor.emit("regrouped", iteration=iteration, **self._now())

    def facts(self) -> dict[str, str]:
        """For a checkpoint: what it has become, if that is other than what was planned."""
        now = self._now()
        return {BECAME: json.dumps([self._planned, now])} if now != self._planned else {}

    async def go_on(self, facts: Mapping[str, str], iteration: int) -> None:
        """Before anything is handed out: become what the run of this checkpoint had become, if it
        was planned alike."""
        fixed = () if self._live.trees else ("workers", "groups")
        planned = {name: value for name, value in self._planned.items() if name not in fixed}
        wish = gone_on(facts.get(BECAME, ""), planned)
        if wish is None:
            return
        try:
            await self.become(self.wanted(wish))
            self.tell(iteration)
        except MessageError as error:
            self._actor.log.warning(
                ("the run before had become %r, which this one cannot: %s"), wish, error
            )

    def _now(self) -> dict[str, float]:
        rates = self.rates
        shape = {"workers": sum(self.sizes), "groups": len(self.sizes)}
        return {**shape, "base_lr": rates.base_lr, "momentum": rates.momentum, "batch": rates.batch}

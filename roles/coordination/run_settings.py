"""The present groups, rates and batch of a run, and their changes, which are sent to all actors
that need them."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nets import NetError, SolverSpec
from roles.attendance_messages import Join
from roles.checkpoints.saving import AskHere
from roles.coordination.grouping import Grouping
from roles.coordination.regroup import SUITED, Live, Wish, gone_on, impossible
from roles.learning.batch_split import Shares
from roles.learning.model_holder import GetStreams, PutBeside, Streams
from roles.learning.stream_states import StreamRows
from roles.messages import Done, Rates, Regroup
from roles.tuning.compensation import Compensation
from runtime import Actor, Envelope, Message, MessageError
from runtime.messages.message import Refusal

BECAME = "became"  # in a checkpoint's metadata
COMPENSATED = "compensated"  # the event of a run that begins with a lowered momentum


class Settings(NamedTuple):
    """The workers of each group, the solver with its rates, and the images of a group's batch.
    `follows`: momentum follows the number of groups."""

    groups: list[list[str]]
    solver: SolverSpec
    batch: int
    follows: bool


class RunSettings:
    """The settings of one coordinator's run.

    `holders` hold parameters. `live` has the changes that are possible. `rows` is the least number
    of rows of any batch, which is cut among the members of a group. `batches` are the images of a
    batch at the beginning, and at most. `ask` asks actors that may be away. `compensation`: the way
    in which momentum follows the number of groups, until a request names a momentum; None: it does
    not. `keepers` keep the states of recurrent layers.
    """

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
        ask: AskHere,
        compensation: Compensation | None = None,
        keepers: Sequence[str] = (),
    ) -> None:
        self._actor = actor
        self._ask = ask
        self._keepers = tuple(keepers)
        self._holders = tuple(holders)
        self._live = live
        self._shares = shares
        self._rows = rows
        self.grouping = Grouping(groups)
        self.solver = solver
        (self.batch, _) = self._batches = batches
        self._compensation = compensation
        self._follows = compensation is not None
        self.since = 0  # the iteration from which workers, groups and batch have been the present
        self._asked: deque[tuple[Regroup, Envelope]] = deque()
        self._planned = self._facts()

    def __repr__(self) -> str:
        return f"<{self.grouping!r}, {self.rates!r}>"

    @property
    def settings(self) -> Settings:
        """The present settings."""
        return Settings(
            [list(members) for members in self.grouping.groups],
            self.solver,
            self.batch,
            self._follows,
        )

    @property
    def sizes(self) -> list[int]:
        """The number of workers of each group."""
        return [len(members) for members in self.grouping.groups]

    @property
    def rates(self) -> Rates:
        """The rates of the solver, and the batch."""
        proto = self.solver.proto
        return Rates(base_lr=proto.base_lr, momentum=proto.momentum, batch=self.batch)

    @property
    def join(self) -> Join:
        """The message that lets a worker in a new life begin with the present rates."""
        rates = self.rates
        return Join(base_lr=rates.base_lr, momentum=rates.momentum, batch=rates.batch)

    def wanted(self, wish: Wish) -> Settings:
        """The settings after this request. Raises MessageError with the reason if they are
        impossible."""
        given = {"base_lr": wish.base_lr, "momentum": wish.momentum}
        for name, rate in given.items():
            if not math.isfinite(rate):
                raise impossible(f"found {name} {rate}, expected a finite number")
        follows = self._follows and wish.momentum < 0
        least, most = self._batches
        if wish.batch and not least <= wish.batch <= most:
            planned = (
                f"{least} to {most}"
                if least < most
                else (f"{least}, since train.batch is not 'auto'")
            )
            raise impossible(f"found a batch of {wish.batch} images, expected {planned}")
        groups = self._live.groups(wish, self.grouping.groups, self._shares, self._rows)
        if self._compensation is not None and follows and len(groups) != len(self.sizes):
            given["momentum"] = self._compensation.momentum(len(groups))
        try:
            solver = self.solver.override(
                {name: value for name, value in given.items() if value >= 0}
            )
        except NetError as error:
            raise impossible(str(error)) from None
        return Settings(groups, solver, wish.batch or self.batch, follows)

    def hear(self, message: Regroup, envelope: Envelope) -> None:
        """Take a request, which is done once nothing is under way. Raises MessageError with the
        reason if it is impossible."""
        self.wanted(message)
        self._asked.append((message, envelope))

    async def change(self, iteration: int) -> None:
        """Do all requests, one after the other, and answer each. Nothing may be under way."""
        while self._asked:
            wish, envelope = self._asked.popleft()
            try:
                wanted = self.wanted(wish)
            except MessageError as error:
                # it was possible when it was asked for, but another request came first
                await self._actor.reply(envelope, Refusal(error=str(error)))
                continue
            if await self.become(wanted, iteration):
                self.tell(iteration)
            await self._actor.reply(envelope, Done())

    async def reduce(self, base_lr: float, iteration: int) -> None:
        """Go on with this base_lr, and report it. Nothing may be under way."""
        if await self.become(self.wanted(Regroup(base_lr=base_lr)), iteration):
            self.tell(iteration)

    async def become(self, wanted: Settings, iteration: int | None = None) -> bool:
        """Change to these settings, and send them to every actor that needs them. Nothing may be
        under way. The run has them from this `iteration` on; None: only a probe has them. Returns
        True if any setting has changed."""
        before = self.settings
        if iteration is not None and (wanted.groups, wanted.batch) != (before.groups, before.batch):
            self.since = iteration
        rates = self.rates
        groups, self.solver, self.batch, self._follows = wanted
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
            await self._share_states()
        await asyncio.gather(*(self._ask(name, what, Done) for name, what in told))
        return other_rates or (groups, wanted.follows) != (before.groups, before.follows)

    async def _share_states(self) -> None:
        """Give the states of recurrent layers of all streams to every worker, since streams move
        between workers."""
        streams = StreamRows()
        for name in self._keepers:
            answer = await self._actor.ask(name, GetStreams(), Streams)
            for state, array in zip(answer.names, answer.arrays, strict=True):
                streams.add(state, array, answer.slices[state])
        if states := streams.arrays():
            put = PutBeside(names=tuple(states), arrays=tuple(states.values()))
            await asyncio.gather(*(self._actor.ask(name, put, Done) for name in self._keepers))

    def tell_decision(self, iteration: int) -> None:
        """Report as an event that the run begins with another momentum than the solver's."""
        decided = self._compensation
        groups = len(self.sizes)
        if decided is not None and groups > 1:
            rates = {"momentum": decided.momentum(groups), "solver_momentum": decided.suited}
            self._actor.emit(COMPENSATED, iteration=iteration, groups=groups, **rates)

    def tell(self, iteration: int) -> None:
        """Report the settings from this iteration on as an event."""
        self._actor.emit("regrouped", iteration=iteration, **self._now())

    def present(self) -> dict[str, Any]:
        """The fields of an answer that has the present settings."""
        return {**self._now(), "follows": self._follows}

    def facts(self) -> dict[str, str]:
        """The metadata of a checkpoint: the planned and the present settings, if they differ or if
        momentum was planned to follow the groups."""
        now = self._facts()
        wanted = now != self._planned or self._compensation is not None
        return {BECAME: json.dumps([self._planned, now])} if wanted else {}

    async def go_on(self, facts: Mapping[str, str], iteration: int) -> None:
        """Take over the settings that the resumed run had in the end, if it was planned alike.
        Called before anything is handed out."""
        fixed = () if self._live.trees else ("workers", "groups")
        planned = {name: value for name, value in self._planned.items() if name not in fixed}
        wish = gone_on(facts.get(BECAME, ""), planned)
        if wish is None:
            return
        try:
            if await self.become(self.wanted(wish), iteration):
                self.tell(iteration)
        except MessageError as error:
            self._actor.log.warning(
                ("the resumed run had %r, which this run cannot take over: %s"), wish, error
            )

    def _facts(self) -> dict[str, float]:
        """The present settings for `gone_on`."""
        if self._compensation is None or not self._follows:
            return self._now()
        return self._now() | {SUITED: self._compensation.suited}

    def _now(self) -> dict[str, float]:
        rates = self.rates
        shape = {"workers": sum(self.sizes), "groups": len(self.sizes)}
        return {**shape, "base_lr": rates.base_lr, "momentum": rates.momentum, "batch": rates.batch}

"""A run that is held: its model is kept in memory, probes train from it and put it back, until the
run is released.

    going on -- Hold --> to be held -- all iterations handed out are in the model --> held
    held -- Release --> going on
    held -- Probe --> probing --> held
    going on, watched -- training diverges --> held

A probe can be kept if its loss does not rise, or falls by a requested part. Then it is training:
its iterations are the run's, and the model after them is kept in memory from then on.

A release can be watched for a number of iterations. For so long the model stays in memory. If
training diverges, it is put back, as after a probe.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from roles.checkpoints.saving import AskHere
from roles.coordination.divergence import Divergence
from roles.coordination.regroup import impossible
from roles.coordination.run_settings import RunSettings, Settings
from roles.coordination.schedule import Schedule
from roles.learning.model_holder import SetAside, TakeBack
from roles.learning.scoreboard import HELD, RELEASED, Iteration
from roles.messages import (
    Done,
    GetState,
    Held,
    Hold,
    Probe,
    Probed,
    Release,
    Released,
    SetState,
    State,
)
from runtime import Actor, Conversation, Envelope, Message, Standing
from runtime.messages.message import Refusal

GOING_ON = "going on"
ASKED = "to be held"
PROBING = "probing"
HOLD = "hold"
PUT_BACK = "put back"
GO_BACK = "go back"
END = "end"
HOLDING = Conversation(
    "the hold on the run",
    "run",
    GOING_ON,
    {
        (GOING_ON, Hold): (ASKED,),
        (ASKED, HOLD): (HELD,),
        (HELD, Probe): (PROBING,),
        (PROBING, PUT_BACK): (HELD,),
        (HELD, Release): (GOING_ON,),
        (GOING_ON, GO_BACK): (HELD,),
        (ASKED, GO_BACK): (ASKED,),
        (ASKED, END): (GOING_ON,),
        (HELD, END): (GOING_ON,),
        (PROBING, END): (GOING_ON,),
    },
)
RUN = ("this",)
NO_LIMIT = math.inf
ROSE = 1.5  # times the first loss of a probe: with a larger loss it is not kept


class Watch(NamedTuple):
    """A release that is watched. `asked` is the request that waits for the answer.

    `iterations`, `images` and `probed` (iterations of probes) are the numbers before the release.
    The watch ends `until` so many iterations are done.
    """

    asked: Envelope
    iterations: int
    images: int
    probed: int
    until: int


class Probing:
    """The hold on one coordinator's run. `servers` have the model. `holders` hold the model, parts
    of it, or replicas of it. `keepers` keep other state from one iteration to the next.

    `trained(iteration, number, seconds)` is called for each probe iteration that is kept as part of
    the run; it ended `seconds` after the one before. `undone()` is called when watched training was
    undone.
    """

    def __init__(
        self,
        actor: Actor,
        schedule: Schedule,
        shape: RunSettings,
        *,
        servers: Sequence[str],
        holders: Sequence[str],
        keepers: Sequence[str] = (),
        ask: AskHere,
        trained: Callable[[Iteration, int, float], None] = lambda iteration, number, seconds: None,
        undone: Callable[[], None] = lambda: None,
    ) -> None:
        self._actor = actor
        self._schedule = schedule
        self._shape = shape
        self._servers = tuple(servers)
        self._holders = tuple(holders)
        self._keepers = tuple(keepers)
        self._ask = ask
        self._standing: Standing[tuple[str]] = Standing(HOLDING)
        # the request to do once nothing is under way
        self._wish: tuple[Hold | Probe | Release, Envelope] | None = None
        self._kept: Mapping[str, State] | None = None  # server -> its part of the model
        self._asked: Envelope | None = None  # the request for the present probe
        self._watch: Watch | None = None
        self._held = self._going_back = False
        self._divergence = Divergence()
        self._before: Settings | None = None  # the settings before the present probe
        self._held_at = self._began = 0.0
        self._ends: list[float] = []  # of the iterations of the present probe
        self._until = NO_LIMIT
        self._wanted = 0
        self._falls = 0.0
        self._losses: list[float] = []
        self._trained = trained
        self._undone = undone
        self._iterations: list[Iteration] = []  # of a probe that is to be kept
        self._diverged = False

    def __repr__(self) -> str:
        return f"<the run is {self._standing.state(RUN)}, {len(self._losses)} losses>"

    @property
    def under_way(self) -> bool:
        """Do the iterations that end now belong to a probe, or to watched training that will be
        undone?"""
        return self._asked is not None or self._going_back

    @property
    def held(self) -> bool:
        """Is the run held, or probed?"""
        return self._held

    @property
    def quiet(self) -> bool:
        """True if the run is neither held nor to be held, and no release is watched."""
        return self._standing.state(RUN) == GOING_ON and self._watch is None

    @property
    def watched(self) -> bool:
        """May the present training still be undone?"""
        return self._watch is not None

    def hear(self, message: Hold | Probe | Release, envelope: Envelope) -> None:
        """Take a request, which is done once nothing is under way. Raises MessageError if it may
        not come now, or is impossible."""
        if self._schedule.winding_down:
            raise impossible("the run ends")
        self._standing.check(message, envelope.sender, RUN)
        if not isinstance(message, Hold):
            self._shape.wanted(message)
        if isinstance(message, Probe) and message.iterations < 1:
            raise impossible(
                f"found a probe of {message.iterations} iterations, expected at least 1"
            )
        self._standing.hear(message, envelope.sender, RUN)
        self._wish = message, envelope

    async def go_on(self) -> None:
        """Keep the model, or put it back. Then do the request, if there is one. Nothing may be
        under way."""
        if self._watch is not None and not self._going_back:
            await self._watched(self._watch)
        if self._kept is None:
            await self._keep()
            self._held = True
        if self._asked is not None:
            await self._end_probe(self._asked)
        if self._going_back and self._watch is not None:
            await self._go_back(self._watch)
        if self._schedule.winding_down:
            await self.end()
            self._schedule.released()
        elif self._wish is not None:
            (wish, envelope), self._wish = self._wish, None
            if isinstance(wish, Hold):
                await self._answer_hold(envelope)
            elif isinstance(wish, Probe):
                await self._begin(wish, envelope)
            else:
                await self._release(wish, envelope)

    def ended(self, iteration: Iteration) -> None:
        """Note that an iteration of the probe has ended."""
        now = self._actor.now()
        self._ends.append(now)
        if self._schedule.keeps:
            self._iterations.append(iteration)
        if iteration.loss is not None and not self._diverged:
            self._losses.append(iteration.loss)
            if iteration.loss > ROSE * self._losses[0]:
                self._schedule.undo_probe()
        # with the last iteration the schedule settles: the decision must be made before it
        if len(self._ends) == self._wanted - 1 and not fell(self._losses, self._falls):
            self._schedule.undo_probe()
        if now >= self._until:
            self._schedule.cut_probe(kept=fell(self._losses, self._falls))

    def diverged(self) -> bool:
        """Undo the present probe, or the watched training, because training diverges. It ends with
        the iterations under way. Returns False if there is neither."""
        if self._asked is not None:
            self._diverged = True
            self._schedule.cut_probe()
        elif self._watch is None:
            return False
        elif not self._going_back:
            self._going_back = True
            self._schedule.go_back(self._watch.iterations, self._watch.images)
        return True

    async def trained(self, loss: float) -> None:
        """Note an iteration of the run itself, and undo watched training that diverges."""
        diverges = self._divergence.shows(loss)
        watch = self._watch
        if watch is None:
            return
        if (diverges or self._divergence.likely) and self._schedule.training:
            self.diverged()
        elif self._schedule.completed >= watch.until:
            await self._watched(watch)

    async def end(self) -> None:
        """End the hold, since the run ends. The open requests are answered."""
        if self._watch is not None:
            await self._watched(self._watch)
        if self._standing.state(RUN) != GOING_ON:
            self._standing.move(END, RUN)
        wish = self._wish
        self._wish = None
        self._kept = None
        self._held = False
        if wish is not None:
            await self._actor.reply(wish[1], Refusal(error="the run ends"))

    async def _answer_hold(self, envelope: Envelope) -> None:
        self._standing.move(HOLD, RUN)
        held = Held(
            iteration=self._schedule.completed,
            since=self._shape.since,
            **self._shape.present(),
        )
        self._held_at = self._actor.now()
        self._actor.emit(HELD, iteration=held.iteration)
        await self._actor.reply(envelope, held)

    async def _release(self, release: Release, envelope: Envelope) -> None:
        done = self._schedule.completed
        if await self._shape.become(self._shape.wanted(release), done):
            self._shape.tell(done)
        await self._tell_keepers(TakeBack(last=not release.watched))
        self._watch = Watch(
            envelope,
            done,
            self._schedule.images,
            self._schedule.probed,
            until=done + release.watched,
        )
        self._held = False
        self._schedule.released()
        self._actor.emit(RELEASED, iteration=done, seconds=self._actor.now() - self._held_at)
        if not release.watched:
            await self._watched(self._watch)

    async def _watched(self, watch: Watch) -> None:
        """End the watch: the training since the release stays."""
        self._watch = self._kept = None
        await self._actor.reply(
            watch.asked,
            Released(
                iterations=self._schedule.completed - watch.iterations, **self._shape.present()
            ),
        )

    async def _go_back(self, watch: Watch) -> None:
        """Put everything back as it was before the release, except groups, rates and batch."""
        await self._put_back()
        self._undone()
        self._divergence.forget()
        self._shape.since = min(self._shape.since, watch.iterations)
        self._standing.move(GO_BACK, RUN)
        self._going_back = False
        self._watch = None
        self._held = True
        self._held_at = self._actor.now()
        self._actor.emit(HELD, iteration=watch.iterations)
        undone = self._schedule.probed - watch.probed
        released = Released(iterations=undone, diverged=True, **self._shape.present())
        await self._actor.reply(watch.asked, released)

    async def _tell_keepers(self, what: Message) -> None:
        await asyncio.gather(*(self._ask(name, what, Done) for name in self._keepers))

    async def _begin(self, probe: Probe, envelope: Envelope) -> None:
        self._before = self._shape.settings
        await self._shape.become(self._shape.wanted(probe))
        self._asked = envelope
        self._losses = []
        self._ends = []
        self._diverged = False
        self._began = self._actor.now()
        self._until = self._began + probe.seconds if probe.seconds > 0 else NO_LIMIT
        self._iterations = []
        self._wanted = probe.iterations
        self._falls = probe.falls
        self._schedule.probe(probe.iterations, kept=probe.kept)

    async def _end_probe(self, asked: Envelope) -> None:
        """Put everything back as it was before the probe, except the model if the probe is kept."""
        assert self._before is not None
        each = pace(self._ends, len(self._shape.sizes))
        if self._schedule.keeps:
            self._count()
            await self._keep()
        else:
            await self._put_back()
        await self._shape.become(self._before)
        self._asked = self._before = None
        self._standing.move(PUT_BACK, RUN)
        seconds = self._ends[-1] - self._began if self._ends else 0.0
        probed = Probed(
            losses=tuple(self._losses), seconds=seconds, pace=each, diverged=self._diverged
        )
        await self._actor.reply(asked, dataclasses.replace(probed, kept=self._schedule.keeps))

    def _count(self) -> None:
        first = self._schedule.completed - len(self._iterations) + 1
        before = self._began
        for number, (iteration, end) in enumerate(
            zip(self._iterations, self._ends, strict=True), first
        ):
            self._trained(iteration, number, end - before)
            before = end
            if iteration.loss is not None:
                self._divergence.shows(iteration.loss)

    async def _keep(self) -> None:
        """Keep the present model in memory."""
        found = {name: await self._ask(name, GetState(), State) for name in self._servers}
        self._kept = {name: state for name, state in found.items() if state is not None}
        await self._tell_keepers(SetAside())

    async def _put_back(self) -> None:
        """Give the kept model back to every actor that holds a part of it. A holder without kept
        state gets the state of the first server. A worker that was away takes its server's model
        over."""
        assert self._kept is not None
        if self._kept:
            for name in dict.fromkeys((*self._servers, *self._holders)):
                if name in self._servers and name not in self._kept:
                    await self._ask(name, self._shape.join, Done)
                    continue
                state = self._kept.get(name) or self._kept[self._servers[0]]
                back = SetState(names=state.names, arrays=state.arrays, version=state.version)
                await self._ask(name, back, Done)
        await self._tell_keepers(TakeBack(last=False))


def fell(losses: Sequence[float], part: float) -> bool:
    """Is the mean loss of the later half below the first loss by this `part` of it? The first loss
    is that of the model that all probes begin with. With 0, always."""
    return not part or (bool(losses) and fmean(losses[len(losses) // 2 :]) < (1 - part) * losses[0])


def pace(ends: Sequence[float], groups: int) -> float:
    """Seconds between the ends of two iterations, in the later half; 0 if there is no later half.

    The first iterations of a run are slow, and groups that begin together do not compete yet. The
    halves are cut between two rounds of all groups, which may end together. A group that is alone
    reports several iterations at once (`ticket_batching`), so it is cut between two reports: at the
    longest time without one in the second quarter.
    """
    half = len(ends) // groups // 2 * groups
    if groups == 1 and half > 1:
        half = max(range(half // 2, half + 1), key=lambda at: ends[at] - ends[at - 1])
    return (ends[-1] - ends[half - 1]) / (len(ends) - half) if half else 0.0

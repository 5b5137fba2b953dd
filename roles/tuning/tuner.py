"""The tuner: has the coordinator hold the run, tries settings from the model of that moment, lets
the run go on with the best, watched for an epoch; then again. Or it keeps momentum where it is
wanted. What is asked and chosen is decided in `search` and `following`; this shell talks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roles.base.role import Held as Memory
from roles.base.role import RoleOptions
from roles.base.shapes import Shapes
from roles.messages import Done, Held, Hold, Probe, Probed, Regroup, Release, Released
from roles.tuning.batch_choice import Batches, noise_of, worth_telling
from roles.tuning.choices import Choices, Chosen, Setting, Trial
from roles.tuning.gradient_statistics import GetGradientStatistics, GradientStatistics
from roles.tuning.judgement import THRESHOLD, judged, mean
from roles.tuning.momentum_following import EVERY, Change, Following
from roles.tuning.record import FILE, Start, as_chosen, search_of, write
from roles.tuning.search import instead, tune
from roles.tuning.trials import SpentUp, Trials
from runtime import Actor, Refused
from runtime.reasons import reason

# times that training goes back to one search's model; a run that diverges still would with anything
FALLS = 5


@dataclass(frozen=True, kw_only=True)
class TunerOptions(RoleOptions):
    """Whom to ask, what to choose from, and, if another run is to be taken up, what that one chose.
    `measuring` are the model servers that know what gradients say. If momentum is to be kept where
    it is wanted without probes, after the cold start if there is something to choose by one,
    `follow` are the groups that the run begins with; else 0."""

    coordinator: str
    choices: Choices
    start: Start | None = None
    measuring: tuple[str, ...] = ()
    follow: int = 0

    @property
    def most_groups(self) -> int:
        """The most that it tries."""
        return max(self.choices.groups, default=0)

    def holds(self, name: str, shapes: Shapes) -> Memory:
        """The model as it is before probes, which the coordinator keeps for it."""
        if not self.choices.any:
            return {}
        servers = shapes.options[self.coordinator].servers
        held = [shapes.options[server].holds(server, shapes) for server in servers]
        return {
            "before probes": sum(
                each.get(what, 0) for each in held for what in ("parameters", "history")
            )
        }


class _Ends(Exception):
    """The run winds down: nobody holds it any more."""


class Tuner(Actor):
    """See the module docstring."""

    Options = TunerOptions
    writes = (FILE,)

    def __init__(self, options: TunerOptions) -> None:
        self._coordinator = options.coordinator
        self._choices = options.choices
        self._start = options.start
        self._measuring = options.measuring
        self._follow = options.follow
        self._searches: list[dict[str, Any]] = []
        self._chosen: Chosen | None = None
        # seconds of the run in which it trained, and in which it was held
        self._trained = self._paused = 0.0
        self._from = 0  # the iteration of the last release; seconds of one from there on
        self._lately = math.inf

    async def run(self) -> None:
        """Search, wait for an epoch's end, search again; until nothing is left to spend or the run
        ends. Or search once and follow."""
        again = self._choices.any
        self._since = self.now()
        try:
            while again:
                again = await self._search()
            if self._follow:
                await self._keep_momentum()
        except _Ends:
            self._tell("no further search: the run ends")
        except Refused as refused:  # the run winds down, or it is over
            self._tell(f"no further {'change' if self._follow else 'search'}: {refused}")

    # -- inside

    async def _search(self) -> bool:
        """Hold, choose, release; until it is time for the next search. Is there one?"""
        began = self.now()
        self._trained += began - self._since
        held = await self.ask(self._coordinator, Hold(), Held)
        now = Setting(held.groups, held.momentum, held.base_lr, held.batch).but()
        left = self._choices.last - held.iteration
        if self._chosen is not None and held.iteration > self._from:
            self._lately = (began - self._since) / (held.iteration - self._from)
        try:
            trials, chosen = await self._choose(
                _Cluster(self, self._coordinator, now), now, left, began
            )
        except Refused:
            await self._release(now, now)
            raise
        self._trained += trials.kept_seconds
        self._paused -= trials.kept_seconds
        was = now
        falls = 0
        while True:
            self._since = self.now()
            self._chosen = chosen
            self._from = held.iteration + trials.kept
            self._paused += self._since - began
            await self._choice(held.iteration + trials.kept, chosen, self._since - began)
            again = not self._follow and self._pays_for_another(trials, chosen, left)
            watched = (
                0
                if trials.diverges(chosen.setting) or falls == FALLS
                else self._choices.epoch(trials.length)
            )
            released = await self._release(was, chosen.setting, min(left - trials.kept, watched))
            if not released.diverged:
                return again
            began = self._since  # what is undone was no training
            was = chosen.setting
            falls = falls + 1
            self._tell(
                f"training diverged within {released.iterations} iterations with {was}: "
                f"it goes back to iteration {held.iteration + trials.kept}"
            )
            trials.fell(was)
            chosen = instead(trials, self._choices, now, chosen)

    async def _choice(self, iteration: int, chosen: Chosen, seconds: float) -> None:
        """Tell and keep it, for which the run was held for so long."""
        spent = {"probes": len(chosen.tried), "seconds": seconds}
        self.emit(
            "tuning", iteration=iteration, **self.shown(chosen.setting), **spent, why=chosen.why
        )
        self._searches.append(search_of(iteration, chosen))
        try:
            await self.compute(
                "write tuning", write, self.run_directory / FILE, chosen, self._searches
            )
        except OSError as error:  # training goes on without its record
            self.log.warning("%s: cannot be written: %s", FILE, reason(error))

    async def _keep_momentum(self) -> None:
        """Look now and then, and change momentum while the run goes on; for ever."""
        said = await self._statistics()
        now = said[0].momentum
        following = Following(now, None if self._chosen else now)
        change = None if self._chosen else following.begin(self._follow)
        while True:
            if change is not None:
                await self._go_on_with(change, said)
            said = await self._statistics(after=min(each.iteration for each in said) + EVERY)
            change = following.heard(said)

    async def _statistics(self, after: int = 0) -> list[GradientStatistics]:
        """Of all model servers, as soon as so many iterations are in their models."""
        asked = GetGradientStatistics(after=after)
        return await asyncio.gather(
            *(self.ask(name, asked, GradientStatistics) for name in self._measuring)
        )

    async def _go_on_with(self, change: Change, said: Sequence[GradientStatistics]) -> None:
        if change.momentum != said[0].momentum:
            await self.ask(self._coordinator, Regroup(momentum=change.momentum), Done)
        iteration = min(each.iteration for each in said)
        self.emit(
            "tuning",
            iteration=iteration,
            momentum=change.momentum,
            total=change.total,
            why=change.why,
        )

    async def _choose(
        self, cluster: _Cluster, now: Setting, left: int, began: float
    ) -> tuple[Trials, Chosen]:
        """What is tried in a run that has `left` iterations to go and stands still since `began`;
        what is chosen."""
        before = self._chosen
        trials = Trials(
            cluster,
            self._choices,
            left,
            trained=self._trained,
            paused=self._paused + self.now() - began,
            known=before.iteration_seconds if before else None,
            batch=now.batch,
            lately=self._lately,
            tell=self._tell,
        )
        chosen = await self._taken_over(trials, now)
        return trials, chosen or await self._with_batch(
            trials, await tune(trials, self._choices, now, before)
        )

    async def _with_batch(self, trials: Trials, chosen: Chosen) -> Chosen:
        """The same with the best batch, as far as it is known how noisy gradients are."""
        noise = noise_of(await self._statistics())
        if not self._choices.batches:
            line = worth_telling(noise, trials.batch) if noise is not None else ""
            if line:
                self._tell(line)
            return chosen
        if noise is None:
            self._tell(
                f"how noisy gradients are is not known yet, so the batch stays {trials.batch}"
            )
            return chosen
        return await Batches(trials, chosen, noise).choose(self._choices.batches)

    async def _taken_over(self, trials: Trials, now: Setting) -> Chosen | None:
        """What the other run chose, if that is the start and does not diverge here."""
        start = self._start
        self._start = None
        if start is None:
            return None
        choices = self._choices
        # an older record says nothing of it
        batches = choices.batches if start.setting.batch else ()
        chosen: dict[str, Any] = {"groups": choices.groups, "momentum": choices.momenta}
        # which goes with the batch
        chosen |= {"batch": batches, "base_lr": choices.rates or batches}
        setting = now.but(
            **{name: getattr(start.setting, name) for name, among in chosen.items() if among}
        )
        try:
            trial = await trials.of(setting)
        except SpentUp:
            self._tell(
                f"{setting}, as {start.file} says, could not be tried: the budget is too small"
            )
            return None
        if trial.diverged:
            self._tell(f"{setting}, as {start.file} says, diverges here: the search begins anew")
            return None
        return as_chosen(start, setting, trial, trials.iteration_seconds, trials.spent)

    async def _release(self, now: Setting, then: Setting, watched: int = 0) -> Released:
        wish = Release(**_changed(now, then), watched=watched)
        return await self.ask(self._coordinator, wish, Released)

    def _pays_for_another(self, trials: Trials, chosen: Chosen, left: int) -> bool:
        """Is there a next search? Tells when, or why not."""
        each = chosen.iteration_seconds.get(chosen.setting.groups, 0.0)
        epoch = self._choices.epoch(trials.length)
        fastest = min(self._lately, *(chosen.iteration_seconds.values() or (0.0,)))
        training = self._trained + left * fastest
        paid = self._choices.budget * training - self._paused
        if each == 0:
            self._tell("no further search: an iteration takes no time here")
        elif (
            chosen.by_theory
            and self._choices.is_short(self._choices.last)
            and not self._choices.batches
        ):
            # of CIFAR-10 quick, 2500 iterations, one took a tenth of the time and changed nothing,
            # with 5 seeds of 5
            self._tell(
                "no further search: what is too short for grids at first has no time for one later"
            )
        elif 2 * epoch > left:
            # what it finds must be used as long as this, or it does not repay the search
            self._tell(
                f"no further search: it would come after {epoch} iterations and pay "
                f"after as many, of {left}"
            )
        elif paid < self._choices.probes(cold=False) * self._choices.length(left - epoch) * each:
            used = f"{self._paused:.3g} s of {self._choices.budget * training:.3g} s are used"
            self._tell(f"no further search: the budget has too little left for one ({used})")
        else:
            self._tell(f"the next search is after {epoch} iterations")
            return True
        return False

    def shown(self, setting: Setting) -> dict[str, Any]:
        """What an event says of a setting: the batch where that is chosen."""
        found = dataclasses.asdict(setting)
        return (
            found
            if self._choices.batches
            else {name: found[name] for name in found if name != "batch"}
        )

    def _tell(self, why: str) -> None:
        self.emit("tuning", why=why)


class _Cluster:
    """The training cluster as a laboratory, while the run is held with the setting `now`."""

    def __init__(self, tuner: Tuner, coordinator: str, now: Setting) -> None:
        self._tuner = tuner
        self._coordinator = coordinator
        self._now = now

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        """See `Lab`. Refused or _Ends if the run winds down."""
        tuner = self._tuner
        began = self._tuner.now()
        changed = _changed(self._now, setting)
        wish = Probe(iterations=iterations, seconds=seconds, kept=kept, falls=falls, **changed)
        found = await tuner.ask(self._coordinator, wish, Probed)
        if (
            not found.diverged
            and len(found.losses) < iterations
            and (not seconds or found.seconds < seconds)
        ):
            raise _Ends  # it was cut by nothing that was asked for
        trial = Trial(
            found.losses, found.seconds, found.diverged, tuner.now() - began, found.pace, found.kept
        )
        loss = "diverged" if trial.diverged else mean(judged(trial))
        shown = {
            **tuner.shown(setting),
            "iterations": len(trial.losses),
            "seconds": trial.seconds,
            "loss": loss,
        }
        tuner.emit("probe", **shown, **({"kept": True} if trial.kept else {}))
        return trial


def _changed(now: Setting, then: Setting) -> dict[str, Any]:
    """What to say of a setting in Probe and Release: only what differs, the rest stays to the last
    bit."""
    was = dataclasses.asdict(now)
    return {name: value for name, value in dataclasses.asdict(then).items() if value != was[name]}

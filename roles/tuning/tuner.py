"""The tuner: an actor that tries settings while the coordinator holds the run, and lets the run go
on with the best.

Each search starts from the model of that moment. The coordinator watches the chosen setting for an
epoch. Then it saves the model (Omnivore, section 5.2), and the tuner searches again. If momentum is
to follow measurements instead, the tuner keeps the total momentum where it is wanted, without
probes.
`search` and `momentum_following` make the decisions; this actor sends the messages.
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
from roles.forecasting.tuned_cluster import Cluster
from roles.messages import Done, Held, Hold, Regroup, Release, Released
from roles.tuning.batch_choice import Batches, noise_of, worth_telling
from roles.tuning.choices import Choices, Chosen, Setting, in_words
from roles.tuning.cluster_model import ClusterModel
from roles.tuning.course import FALLS, Course
from roles.tuning.gradient_statistics import GetGradientStatistics, GradientStatistics
from roles.tuning.hardware import Hardware
from roles.tuning.held_cluster import HeldCluster, RunEnds, changed, shown
from roles.tuning.momentum import ROUNDING
from roles.tuning.momentum_following import EVERY, Change, Following
from roles.tuning.record import FILE, Start, as_chosen, search_of, write
from roles.tuning.search import tune
from roles.tuning.trials import SpentUp, Trials
from runtime import Actor, Refused, Save
from runtime.reasons import reason


@dataclass(frozen=True, kw_only=True)
class TunerOptions(RoleOptions):
    """The actors that the tuner asks, and the values from which it chooses.

    `start` is the choice of another run, if this run starts from its record. `measuring` are the
    model servers that measure gradients. `follow` is the number of groups with which the run
    starts, if momentum is to be kept at a total without probes; else 0. `suited` is that total, the
    solver's momentum. If a cold start has something to choose, it comes first. `cluster` is the
    cluster that the model describes, if the tuner chooses groups. `saves`: a checkpoint is saved at
    the end of each epoch.
    """

    coordinator: str
    choices: Choices
    cluster: Cluster | None = None
    start: Start | None = None
    measuring: tuple[str, ...] = ()
    follow: int = 0
    suited: float = 0.0
    saves: bool = False

    @property
    def most_groups(self) -> int:
        """The largest number of groups that the tuner tries."""
        return max(self.choices.groups, default=0)

    def holds(self, name: str, shapes: Shapes) -> Memory:
        """The copy of the model from before the probes, which the coordinator keeps for the
        tuner."""
        if not self.choices.any:
            return {}
        servers = shapes.options[self.coordinator].servers
        held = [shapes.options[server].holds(server, shapes) for server in servers]
        return {
            "before probes": sum(
                each.get(what, 0) for each in held for what in ("parameters", "history")
            )
        }


class Tuner(Actor):
    """Searches for settings, or follows momentum, as the module's docstring describes."""

    Options = TunerOptions
    writes = (FILE,)

    def __init__(self, options: TunerOptions) -> None:
        self._coordinator = options.coordinator
        self._planned = self._choices = options.choices
        self._start = options.start
        self._measuring = options.measuring
        self._follow = options.follow
        self._suited = options.suited
        self._saves = options.saves
        self._model: ClusterModel | None = None
        if options.cluster is not None and options.choices.groups:
            hardware = Hardware(options.cluster, options.choices.groups)
            cold = options.cluster.warms
            self._model = ClusterModel(self, hardware, options.coordinator, cold=cold)
        self._searches: list[dict[str, Any]] = []
        self._chosen: Chosen | None = None
        # seconds for which the run trained, and for which it was held
        self._trained = self._paused = 0.0
        self._workers = 0
        self._no_more = False  # it is reported that no search follows
        self._from = 0  # the iteration of the last release
        self._lately = math.inf  # seconds of an iteration since then

    async def run(self) -> None:
        """Search, wait for the end of an epoch, and search again, until the budget is spent or the
        run ends. Or search at most once, then follow momentum."""
        again = self._choices.any
        self._since = self.now()
        try:
            while again:
                again = await self._search()
            if self._follow:
                await self._keep_momentum()
        except RunEnds:
            self._tell_end("the run ends")
        except Refused as refused:  # the run winds down or has ended
            self._tell_end(str(refused))

    # -- inside

    async def _search(self) -> bool:
        """Hold the run, choose a setting and release the run. Return True if another search will
        follow, at the time when it is due."""
        began = self.now()
        self._trained += began - self._since
        before = self._chosen
        if before is not None and self._saves:
            await self.tell(self._coordinator, Save())
        held = await self.ask(self._coordinator, Hold(), Held)
        now = self._present(held)
        if before is not None:
            await self._learn_from(held, now, before.setting, began - self._since)
        left = self._choices.last - held.iteration
        try:
            cluster = HeldCluster(
                self, self._coordinator, now, held.workers, self._model, self._choices
            )
            trials, chosen = await self._choose(cluster, now, left, began)
        except Refused:
            await self._release(now, now)
            raise
        self._trained += trials.kept_seconds
        self._paused -= trials.kept_seconds
        course = Course(trials, now, chosen, held.iteration + trials.kept, last=self._choices.last)
        return await self._go_on(course, now, began)

    async def _go_on(self, course: Course, was: Setting, began: float) -> bool:
        """Release the run, held with the setting `was` since `began`, with the choice of the
        course; with others where training diverges. Return True if another search will follow, at
        the time when it is due."""
        while True:
            watched, again = await self._decided(course, began)
            released = await self._release(was, course.chosen.setting, watched)
            if released.diverged:
                began = self._since  # the seconds of undone iterations do not count as training
                was = self._present(released)
                for why in course.fell(self._choices, was, released.iterations):
                    self._tell(why)
            elif course.later is None:
                return again
            else:
                began = self.now()
                self._trained += began - self._since
                held = await self.ask(self._coordinator, Hold(), Held)
                was = self._present(held)
                for why in course.warmed_up(was, held.iteration):
                    self._tell(why)

    async def _decided(self, course: Course, began: float) -> tuple[int, bool]:
        """Report the choice with which a run goes on that was held since `began`. Return the number
        of iterations to watch, and whether another search will follow."""
        trials = course.trials
        chosen = course.chosen
        self._since = self.now()
        self._chosen = chosen
        self._from = course.at
        self._paused += self._since - began
        await self._choice(course.at, chosen, self._since - began)
        if self._model is not None:
            await self._model.begin()
        if course.later is not None:
            return course.warm_up, False
        if trials.diverges(chosen.setting) or course.falls == FALLS:
            self._tell_end("all settings that are left diverged")
            return 0, False
        again = not self._follow and self._pays_for_another(trials, chosen, course.left)
        return min(course.left, self._epoch(trials, chosen)), again

    async def _learn_from(self, held: Held, now: Setting, then: Setting, seconds: float) -> None:
        """Learn how long iterations take from the `seconds` of training since the last release,
        unless a request changed its groups meanwhile. Reports a change of the setting `then`."""
        is_whole = held.since <= self._from
        why = await self._model.fit(held.workers, now) if self._model and is_whole else ""
        if why:
            self._tell(why)
        if held.iteration > self._from:
            each = seconds / (held.iteration - self._from)
            self._lately = each if is_whole else math.inf
        if now != then:
            self._tell(
                f"a request changed {then} to {now} since the last search; this one starts from it"
            )

    def _present(self, said: Held | Released) -> Setting:
        """The setting that the run has, by the word of the coordinator, its owner. What may be
        chosen follows from it too."""
        self._choices = self._planned.of(said.workers, follows=said.follows)
        if self._chosen is not None and said.workers != self._workers:
            # all that is known of groups is known of groups of other workers
            if self._model is not None:
                self._model.forget()
            self._chosen = dataclasses.replace(self._chosen, iteration_seconds={}, saturated=0)
        self._workers = said.workers
        return Setting(said.groups, said.momentum, said.base_lr, said.batch).but()

    async def _choice(self, iteration: int, chosen: Chosen, seconds: float) -> None:
        """Report the choice and write it into the record. The run was held for `seconds`."""
        predicted = self._model.seconds.get(chosen.setting.groups, 0.0) if self._model else 0.0
        spent = {
            "probes": len(chosen.tried),
            "seconds": seconds,
            **({"predicted_seconds": predicted} if predicted else {}),
        }
        setting = shown(chosen.setting, self._choices)
        self.emit("tuning", iteration=iteration, **setting, **spent, why=chosen.why)
        self._searches.append(search_of(iteration, chosen))
        try:
            await self.compute(
                "write tuning", write, self.run_directory / FILE, chosen, self._searches
            )
        except OSError as error:  # training goes on without its record
            self.log.warning("%s: cannot be written: %s", FILE, reason(error))

    async def _keep_momentum(self) -> None:
        """Ask for statistics every EVERY iterations and change momentum while the run goes on.
        Never returns."""
        said = await self._statistics()
        now = said[0].momentum
        following = Following(now, None if self._chosen else self._suited)
        # a resumed run has the momentum that it followed to, not the solver's
        is_new = abs(now - self._suited) <= ROUNDING
        change = following.begin(self._follow) if is_new and not self._chosen else None
        while True:
            if change is not None:
                await self._go_on_with(change, said)
            said = await self._statistics(after=min(each.iteration for each in said) + EVERY)
            change = following.heard(said)

    async def _statistics(self, after: int = 0) -> list[GradientStatistics]:
        """Ask all model servers for statistics; they answer when `after` iterations are in their
        models."""
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
        self, cluster: HeldCluster, now: Setting, left: int, began: float
    ) -> tuple[Trials, Chosen]:
        """Try settings in a run that has `left` iterations to go and has been held since `began`.
        Return the trials and the choice."""
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
        """The same choice with the best batch, if the noise of gradients is known well enough."""
        noise = noise_of(await self._statistics())
        if not self._choices.batches:
            line = worth_telling(noise, trials.batch) if noise is not None else ""
            if line:
                self._tell(line)
            return chosen
        if noise is None:
            self._tell(
                f"the noise of gradients is not known well enough, so the batch stays "
                f"{trials.batch}"
            )
            return chosen
        return await Batches(trials, chosen, noise).choose(self._choices.batches)

    async def _taken_over(self, trials: Trials, now: Setting) -> Chosen | None:
        """Try the setting that the other run chose. None if this run has no such start, or the
        setting diverges here, or the budget is too small."""
        start = self._start
        self._start = None
        if start is None:
            return None
        setting = self._choices.possible(start.setting, now)
        try:
            trial = await trials.of(setting)
        except SpentUp:
            self._tell(
                f"the setting of {start.file}, {setting}, was not tried: the budget is too small"
            )
            return None
        if trial.diverged:
            self._tell(
                f"the setting of {start.file}, {setting}, diverges here: the cold start follows"
            )
            return None
        return as_chosen(start, setting, trial, trials.iteration_seconds, trials.spent)

    async def _release(self, now: Setting, then: Setting, watched: int = 0) -> Released:
        wish = Release(**changed(now, then, self._choices), watched=watched)
        return await self.ask(self._coordinator, wish, Released)

    def _pays_for_another(self, trials: Trials, chosen: Chosen, left: int) -> bool:
        """True if another search will follow. Reports when, or why none does."""
        each = chosen.iteration_seconds.get(chosen.setting.groups, 0.0)
        epoch = self._epoch(trials, chosen)
        fastest = min(self._lately, *(chosen.iteration_seconds.values() or (0.0,)))
        training = self._trained + left * fastest
        paid = self._choices.budget * training - self._paused
        if chosen.setting.groups not in chosen.iteration_seconds:
            many = in_words(chosen.setting.groups)
            self._tell_end(f"no probe showed how long an iteration of {many} takes")
        elif each == 0:
            self._tell_end("an iteration takes no time here")
        elif (
            chosen.by_theory
            and self._choices.is_short(self._choices.last)
            and not self._choices.batches
        ):
            # a search in 2500 iterations of CIFAR-10 quick took a tenth of the time and changed
            # nothing, with 5 seeds of 5
            self._tell_end("a run that is too short for grids at first has no time for one later")
        elif 2 * epoch > left:
            # the choice must be used for as long as an epoch, or it does not repay its search
            self._tell_end(
                f"it would start after {epoch} iterations and pay off after "
                f"as many more, but only {left} are left"
            )
        elif paid < self._choices.probes(cold=False) * self._choices.length(left - epoch) * each:
            used = f"{self._paused:.3g} s of {self._choices.budget * training:.3g} s are used"
            self._tell_end(f"the budget has too little left ({used})")
        else:
            self._no_more = False
            self._tell(f"the next search is after {epoch} iterations")
            return True
        return False

    def _epoch(self, trials: Trials, chosen: Chosen) -> int:
        """The number of training iterations until the next search.

        If the budget did not pay for grids at first, the training that is done by then has to pay
        for all searches and for the next one (Omnivore, F.7: ten times as long as the optimizer
        ran). Otherwise two searches would spend the budget of the whole run in its first part, and
        probes as short as these change little: LeNet at a loss of 0.05, 7 of 7 settings tied.
        """
        choices = self._choices
        epoch = choices.epoch(trials.length)
        each = chosen.iteration_seconds.get(chosen.setting.groups, 0.0)
        if not chosen.by_theory or choices.epoch_iterations or not each:
            return epoch
        next_one = choices.probes(cold=False) * trials.length * each
        missing = (self._paused + next_one) / choices.budget - self._trained
        return max(epoch, math.ceil(missing / each))

    def _tell_end(self, why: str) -> None:
        """Report once why no search, or no change, will follow."""
        if not self._no_more:
            self._tell(f"no further {'change' if self._follow else 'search'}: {why}")
        self._no_more = True

    def _tell(self, why: str) -> None:
        self.emit("tuning", why=why)

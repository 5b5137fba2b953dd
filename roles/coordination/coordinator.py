"""The coordinator, the lead of every training topology: hands out tickets, follows the run, tests,
saves, ends.

`schedule` decides what comes next, and `scoreboard` keeps the numbers. `RunSettings` has the
present settings of the run, and `Probing` holds it. This class exchanges the messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nets.predict import Seen
from roles.attendance_messages import Abandoned
from roles.base.role import Anew, JobOptions
from roles.checkpoints.best import NOTHING, Verdict, Watched
from roles.checkpoints.checkpoint_timing import NEVER, Timing
from roles.checkpoints.saving import Checkpoints, Snapshot
from roles.coordination.advice import on_loss
from roles.coordination.coming_and_going import ComingAndGoing
from roles.coordination.gauges import RunGauges
from roles.coordination.handing_over import HandingOver
from roles.coordination.pass_ledger import DONE, UPDATE, WORKER, PassLedger
from roles.coordination.plateau_steps import PlateauSteps
from roles.coordination.probing import HOLDING, Probing
from roles.coordination.regroup import FIXED, Live
from roles.coordination.run_settings import RunSettings
from roles.coordination.sample_ledger import Pass
from roles.coordination.schedule import RunStage, Schedule, Timetable
from roles.coordination.state_holders import holders_of
from roles.coordination.stragglers import Stragglers
from roles.coordination.testing import Tests
from roles.coordination.ticket_batching import Pace, in_sequence
from roles.learning.batch_split import EQUAL, Cutting, Shares
from roles.learning.job import InputShape
from roles.learning.local_steps import LocalSteps, StepsBySpeed
from roles.learning.resume import SAVED, kept_of, losses_of, sweep
from roles.learning.scoreboard import ITERATION, Iteration, Scoreboard
from roles.messages import (
    STOP,
    TEST,
    TRAIN,
    Hold,
    NextTicket,
    PassDone,
    Probe,
    Regroup,
    Release,
    Ticket,
    Updated,
)
from roles.tuning.compensation import Compensation
from runtime import (
    Actor,
    Conversation,
    Envelope,
    GetHolders,
    HandOver,
    PeerLost,
    ProgramFailed,
    Save,
    WindDown,
)


@dataclass(frozen=True, kw_only=True)
class CoordinatorOptions(JobOptions):
    """The job, the timetable, and these:

    groups       the workers of each group, by rank
    updates      the number of `Updated` messages that an iteration brings
    servers      the actors with the state that a checkpoint must hold
    display      iterations between two progress reports; 0: none
    image_shape  the shapes of the data, so that predictions need not open them
    holders      the actors that hold parameters
    shares       how a batch is cut among the members of a group
    live         the changes that the topology is prepared for
    keepers      the actors that keep state next to the model
    timing       when checkpoints are due by time
    watched      the decisions that follow from tests
    seen         facts of the data, from which checkpoints describe the model's use
    replicas     the actors that have the whole model after whole iterations
    compensation the way in which momentum follows the number of groups; None: it does not
    epoch_images the rows of an epoch; 0: not known
    accuracies   the Accuracy layers of the training net, whose scores reports have
    sequence     the number of consecutive batches in which recurrent layers hand on their states
    local        how many iterations a worker does between two exchanges, if each does its own
    outer        the server of workers that come and go while the run goes on; "": none do
    """

    anew: ClassVar[Anew] = Anew.WITH_THE_RUN
    any_batch: ClassVar[bool] = True
    timetable: Timetable
    groups: tuple[tuple[str, ...], ...]
    updates: int
    servers: tuple[str, ...]
    display: int
    image_shape: InputShape = ()
    holders: tuple[str, ...] = ()
    shares: Cutting = EQUAL
    live: Live = FIXED
    keepers: tuple[str, ...] = ()
    timing: Timing = NEVER
    watched: Watched = NOTHING
    seen: Seen | None = None
    replicas: tuple[str, ...] = ()
    compensation: Compensation | None = None
    epoch_images: int = 0
    accuracies: tuple[str, ...] = ()
    sequence: int = 1
    local: LocalSteps | None = None
    outer: str = ""

    @property
    def gpu(self) -> str:
        """None: it computes nothing, whichever device a pattern gives it."""
        return ""


class Coordinator(Actor):
    """The lead of a training run; see the module docstring."""

    Options = CoordinatorOptions
    conversations: ClassVar[tuple[Conversation, ...]] = (WORKER, DONE, UPDATE, HOLDING)
    writes = SAVED

    def __init__(self, options: CoordinatorOptions) -> None:
        self._job = options.job
        emulated = options.job.emulated  # its devices have no model
        servers = () if emulated else options.servers
        keepers = () if emulated else options.keepers
        self._replicas = () if emulated else options.replicas
        table = options.timetable
        self._schedule = Schedule(table)
        self._pace = Pace()
        names = [name for members in options.groups for name in members]
        self._steps = StepsBySpeed(options.local, names, table.last) if options.local else None
        self._shares = Shares(options.shares)
        self._ledger = PassLedger({*options.live.workers, *names}, self._schedule.owes)
        self._workers = self._coming_and_going(names if options.outer else [], options.outer)
        self._tests = Tests(self, table, options.watched, options.seen)
        self._cohort = Stragglers()
        self._compensates = options.compensation is not None
        self._plateau = PlateauSteps(options.watched.plateau)
        self._shape = RunSettings(
            self,
            options.groups,
            self._job.solver_spec,
            holders=options.holders,
            live=options.live,
            shares=self._shares,
            rows=min(table.batch, *(test.batch for test in table.tests), table.batch),
            batches=(table.batch, max(table.batch, self._job.largest)),
            ask=self._workers.ask,
            compensation=options.compensation,
            keepers=keepers if options.job.recurrent() else (),
        )
        self._probing = Probing(
            self,
            self._schedule,
            self._shape,
            servers=servers,
            holders=options.holders,
            keepers=keepers,
            ask=self._workers.ask,
            trained=self._kept_one,
            undone=lambda: self._scores.undone(),
        )
        self._updates = options.updates
        self._sequence = options.sequence
        self._display = options.display
        self._epoch_images = options.epoch_images
        self._accuracies = options.accuracies
        self._asked: list[Envelope] = []
        self._begun = False  # no worker gets a ticket before
        self._changed = asyncio.Event()
        self._checkpoints = self._saving(options, servers, keepers)
        self._handing_over = HandingOver(
            self, self._schedule, self._probing, self._checkpoints, emulated=not servers
        )
        self._idle_since: float | None = None  # a group has nothing to do until the run is saved

    def _saving(
        self, options: CoordinatorOptions, servers: Sequence[str], keepers: Sequence[str]
    ) -> Checkpoints:
        return Checkpoints(
            self,
            self._job,
            options.timing,
            servers=servers,
            keepers=keepers,
            ask=self._workers.ask,
            wake=self._changed.set,
            seen=options.seen,
        )

    def _coming_and_going(self, workers: Sequence[str], server: str) -> ComingAndGoing:
        return ComingAndGoing(
            self,
            workers,
            server,
            schedule=self._schedule,
            ledger=self._ledger,
            rates=lambda: self._shape.rates,
            serve=self._serve,
            steps=self._steps,
        )

    async def on_start(self) -> None:
        """Prepare the scoreboard. Remove the unfinished files of runs next to this one that were
        killed while they saved."""
        await self.compute("sweep", sweep, self.run_directory.parent)
        self._scores = Scoreboard(self._shape.solver.average_loss, self._accuracies)
        self._gauges = RunGauges(self, self._schedule.table, self._job)
        self._checkpoints.on_result = self._gauges.saved
        self._tests.start()

    async def run(self) -> None:
        """Save when a checkpoint is due, and end when everything is done."""
        facts = await self._checkpoints.restored()
        self._scores.begin(self.now(), losses_of(facts))
        if facts:
            verdict = await self._tests.resumed(self._job.resume, dict(facts))
            self._plateau.resume(facts, verdict.reductions)
            self._follow(verdict)
        self._shape.tell_decision(self._schedule.completed)
        await self._shape.go_on(facts, self._schedule.completed)
        if (kept := kept_of(facts)) is not None:
            self._schedule.begin_unsettled(test=self._tests.due(kept))
        self._checkpoints.begin()
        self._gauges.begin()
        self.stepped()  # from here on a standstill is reported
        self._begun = True
        await self._serve()
        while self._schedule.stage is not RunStage.DONE:
            await self._changed.wait()
            self._changed.clear()
            await self._checkpoints.look()
            if self._schedule.stage is RunStage.SAVING:
                await self._save()
                await self._handing_over.saved()
                self._schedule.saved()
                await self._serve()
            if self._schedule.stage is RunStage.CHANGING:
                await self._shape.change(self._schedule.completed)
                await self._step_down()
                self._schedule.changed()
                await self._serve()
            if self._schedule.stage is RunStage.HELD:
                await self._hold()
        await self._probing.end()
        await self._handing_over.refuse("the training is at its end")
        ended = self._scores.summary(self._schedule.completed, self.now())
        place = self._schedule.completed, self._schedule.images
        await self._checkpoints.written_at_end(place)
        await self._serve()
        how = "handed over" if self._handing_over.done else "finished"
        self.emit(how, **ended, **self._tests.best_test, checkpoint=self._checkpoints.last)
        if self._checkpoints.unsaved:
            text = (
                f"the last checkpoint could not be saved: {self._checkpoints.unsaved}; "
                f"{self._checkpoints.kept}"
            )
            raise ProgramFailed(text)

    async def on_stop(self) -> None:
        """Finish the file that is being written."""
        await self._workers.stop()
        await self._checkpoints.end()

    async def on_next_ticket(self, message: NextTicket, envelope: Envelope) -> None:
        """Take a worker's request for its group's next pass. It is answered when there is one."""
        self._ledger.asks(message, envelope.sender)
        self._workers.asks(envelope)
        self._asked.append(envelope)
        await self._serve()

    async def on_pass_done(self, message: PassDone, envelope: Envelope) -> None:
        """Take a worker's report that its part of a pass is computed."""
        counted = self._tests.confusion.read(message)
        whole = self._ledger.done(message, envelope.sender)
        self._tests.confusion.add(message.phase, counted)
        if message.phase == TRAIN:
            if not self._probing.under_way:  # probes leave no trace
                self._shares.seen(envelope.sender, message.rows, message.seconds)
                if self._steps is not None:
                    self._steps.stepped(
                        envelope.sender, message.number, message.seconds, self.now()
                    )
                elif (
                    news := self._cohort.seen(
                        envelope.sender, message.rows, message.seconds, self.now()
                    )
                ) is not None:
                    self.emit(news.event[0], **news.event[1])
            self._check_loss(message)
            await self._reported(message.number)
        elif whole is not None:
            self.stepped()
            self._workers.ended(message.phase, message.number)
            self._scores.tested(message.phase, *whole)
            if self._schedule.tested():
                self._ledger.end_test()
                self._report_test()
            await self._serve()

    async def on_updated(self, message: Updated, envelope: Envelope) -> None:
        """Take a server's report that an iteration is in its layers."""
        if message.again and not self._ledger.is_owed(message, envelope.sender):
            return
        self._ledger.updated(message, envelope.sender)
        self._workers.merged(message.number)
        if self._steps is not None:
            self._steps.merged(message.number, self.now())
        await self._reported(message.number)

    async def on_peer_lost(self, message: PeerLost, envelope: Envelope) -> None:
        """Go on without the workers that have died, if they may come and go."""
        await self._workers.lost(message)

    async def on_abandoned(self, message: Abandoned, envelope: Envelope) -> None:
        """Hand the passes of a worker that has died out to others."""
        for number in self._workers.abandoned(message):
            await self._reported(number)
        await self._serve()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        """End the run early: save the model after the iterations under way."""
        self.emit("winding down", reason=message.reason, iteration=self._schedule.issued)
        self._schedule.wind_down()
        await self._serve()

    async def on_save(self, message: Save, envelope: Envelope) -> None:
        """Save after the iterations under way, then go on."""
        self._schedule.save()
        await self._serve()

    async def on_hand_over(self, message: HandOver, envelope: Envelope) -> None:
        """Save after the iterations under way, and end there. Answered when the file is whole."""
        self._handing_over.hear(envelope)
        await self._serve()

    async def on_get_holders(self, message: GetHolders, envelope: Envelope) -> None:
        """Answer which actors hold all of the run's state. Asked when an actor has died."""
        found = holders_of(
            self._replicas,
            self._schedule,
            self._probing,
            batch=self._shape.batch,
            losses=self._scores.losses,
            run=self.run_directory,
            more=self._facts(self._schedule.completed),
            recurrent=self._job.recurrent(),
        )
        await self.reply(envelope, found)

    async def on_regroup(self, message: Regroup, envelope: Envelope) -> None:
        """Change groups, workers or rates after the iterations under way. Answered when they have
        changed."""
        self._shape.hear(message, envelope)
        self._schedule.change()
        await self._serve()

    async def on_hold(self, message: Hold, envelope: Envelope) -> None:
        """Hand out nothing more until the run is released. Answered when nothing is under way."""
        self._probing.hear(message, envelope)
        self._schedule.hold()
        await self._serve()

    async def on_probe(self, message: Probe, envelope: Envelope) -> None:
        """Train for a while from the held model. Answered when the probe has ended and the model is
        put back, unless the probe is kept."""
        self._probing.hear(message, envelope)
        self._changed.set()

    async def on_release(self, message: Release, envelope: Envelope) -> None:
        """Go on from the held model. Answered when the iterations that are watched have ended."""
        self._probing.hear(message, envelope)
        self._changed.set()

    # -- inside

    async def _hold(self) -> None:
        """Do what was requested of the held run, if anything was."""
        if not self._probing.held:
            self._scores.pause(self.now())
        await self._probing.go_on()
        if not self._probing.held:
            self._scores.resume(self.now())
        if self._schedule.stage is not RunStage.HELD:
            await self._serve()

    async def _serve(self) -> None:
        """Answer every worker that can be answered now. Members of a group get the same pass."""
        if not self._begun:
            return
        asked = self._asked
        self._asked = []
        for envelope in asked:
            if self._workers.is_former(envelope):
                continue
            ticket = self._ticket(envelope.sender)
            if ticket is None:
                self._asked.append(envelope)
            else:
                await self.reply(envelope, ticket)
        self._changed.set()

    def _ticket(self, worker: str) -> Ticket | None:
        if self._schedule.stage is RunStage.DONE:
            return Ticket(phase=STOP, number=0)
        if not self._workers.takes_part(worker):
            return None
        return self._shape.grouping.next_of(worker, self._next_pass)

    def _next_pass(self, members: Sequence[str]) -> tuple[Pass, tuple[int, ...]] | None:
        """The next pass of a group, and the cuts of its batch."""
        local = self._steps
        at_once = (
            local.of(members[0])
            if local is not None
            else in_sequence(self._schedule.images // self._shape.batch, self._sequence)
            if len(self._shape.sizes) > 1
            else self._pace.at_once(self._schedule, self._display, self.now())
        )
        reports = (len(members) if local is None else 1) + self._updates
        found = self._workers.again(at_once) or self._schedule.next_pass(
            reports, at_once, self._shape.batch
        )
        if found is None:
            return None
        self._workers.handed_out(members[0], found)
        self._pace.given(found.passes, self.now())
        self._idle_since = None
        if found.phase == TEST and found.number == 0:
            self._scores.pause(self.now())
        return found, self._shares.cuts(members[: found.rows], found.rows)

    def _check_loss(self, done: PassDone) -> None:
        """End the run if the loss of a part is not finite. A probe is only cut, and training that
        is watched is undone."""
        loss = float(done.scores.get("loss", 0.0))
        if loss - loss != 0.0 and not self._probing.diverged():
            self._gauges.diverged(loss)
            iteration = done.number - self._schedule.probed
            why = on_loss(
                self._shape.solver,
                iteration,
                self._schedule.table.first,
                len(self._shape.sizes),
                self._compensates,
                apart=self._steps is not None,
            )
            raise ProgramFailed(f"the loss is {loss} at iteration {iteration}: {why}")

    async def _reported(self, number: int) -> None:
        if not self._schedule.reported(number):
            return
        ended = self._ledger.end(number)
        self._workers.ended(TRAIN, number)
        self.stepped()
        if self._probing.under_way:
            self._probing.ended(ended)
            await self._serve()
            return
        resting = self._schedule.under_way < len(self._shape.sizes)
        if self._schedule.to_be_saved and resting and self._idle_since is None:
            self._idle_since = self.now()
        self.took(ITERATION, self._scores.lap(self.now()))
        self._trained(ended, self._schedule.completed)
        if ended.loss is not None:
            await self._probing.trained(ended.loss)
        if self._checkpoints.due() and not self._probing.watched:
            self._schedule.save(timed=True)
        await self._serve()

    def _trained(self, ended: Iteration, done: int) -> None:
        """Report an iteration that has ended. `done` iterations have ended now."""
        self._scores.trained(ended, self._shape.batch, self._shape.solver.rate(done - 1))
        self._gauges.trained(ended.loss, done, self._shape.batch, self._shape.solver)
        table = self._schedule.table
        regular = bool(self._display and done % self._display == 0)
        if (first := done == table.first + 1) or regular:
            # so that a resumed run reports what an unbroken one does
            between = first and done > 1 and not regular
            fields = self._scores.progress(
                done, table.last, self.now(), epoch=self._epoch(done), between=between
            )
            rows = self._shares.told(self._shape.grouping.groups, self._shape.batch)
            self.emit("progress", **fields, **({"rows": rows} if rows else {}))

    def _epoch(self, done: int) -> float | None:
        """The epochs in `done` iterations; None if the rows of an epoch are not known."""
        images = self._schedule.images - (self._schedule.issued - done) * self._shape.batch
        return images / self._epoch_images if self._epoch_images else None

    def _kept_one(self, ended: Iteration, done: int, seconds: float) -> None:
        """Report an iteration of a probe that is kept. The run is held, so of its time only the
        seconds of the iteration count."""
        self._scores.resume(self.now())
        self._scores.kept(seconds)
        self._trained(ended, done)
        self._scores.pause(self.now())

    def _report_test(self) -> None:
        self._scores.resume(self.now())
        self._follow(self._tests.report(self._scores, self._schedule.completed))

    def _follow(self, verdict: Verdict) -> None:
        """Act on a test that is over: end the run early, or save its best model."""
        if verdict.stop:
            self.emit("stopping early", iteration=self._schedule.completed, **verdict.stop)
            self._schedule.wind_down()
        if self._plateau.hear(verdict.reductions):
            self._schedule.change()
        if verdict.best:
            self._schedule.save_best()

    async def _step_down(self) -> None:
        """Lower the base_lr if the tests so far ask for it. Nothing may be under way."""
        base_lr = self._plateau.next_base_lr(self._shape.rates.base_lr)
        if base_lr is not None:
            await self._shape.reduce(base_lr, self._schedule.completed)

    def _facts(self, iteration: int) -> dict[str, str]:
        """The metadata for the checkpoint of that iteration."""
        return self._tests.facts(iteration) | self._shape.facts() | self._plateau.facts()

    async def _save(self) -> None:
        idle_since = self._idle_since
        self._idle_since = None
        if self._job.emulated:  # emulated devices have no model
            return
        began = self.now()
        self._scores.pause(began)
        place = self._schedule.completed, self._schedule.images
        wanted = self._schedule.save_wanted
        regular = self._schedule.to_be_saved
        best = self._tests.best if self._schedule.best_wanted else {}
        facts = self._facts(place[0])
        of = Snapshot(place, self._scores.losses, wanted, facts, best, regular)
        await self._checkpoints.copy(of, began if idle_since is None else idle_since)
        self._scores.resume(self.now())

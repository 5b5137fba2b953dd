"""The order in which a run trains, tests, saves, changes its groups and ends. Decisions only, no
messages.

Iterations are handed out one by one to any group that asks, or several in a row to a group that is
alone. When a test, a snapshot or a change of the groups is due, no further iteration is handed out
until all earlier ones are in the model. So each test or snapshot sees one definite model, whatever
the number of groups.

A run that is held can be probed. The iterations of a probe do not count, unless the probe is kept.
Its samples come again, but its numbers do not: every actor knows an iteration by a number that only
grows. The samples of an iteration are counted separately, since batches may become larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from roles.coordination.sample_ledger import Pass
from roles.messages import TEST, TRAIN


class RunStage(Enum):
    """The stage of the run."""

    TRAINING = "training"
    DRAINING = "draining"
    TESTING = "testing"
    SAVING = "saving"
    CHANGING = "changing"
    HELD = "held"
    PROBING = "probing"
    DONE = "done"


@dataclass(frozen=True)
class NetTest:
    """One test net: the rows of a whole test, the rows of a batch, its phase and its name."""

    rows: int
    batch: int
    phase: str = TEST
    name: str = ""

    @property
    def passes(self) -> list[Pass]:
        """The batches of a test. The last one has the remaining rows."""
        starts = range(0, self.rows, self.batch)
        return [
            Pass(self.phase, at, min(self.batch, self.rows - start), first=start)
            for at, start in enumerate(starts)
        ]


@dataclass(frozen=True)
class Timetable:
    """The iterations at which tests and snapshots are due. They count from 0; an interval of 0
    means never.

    `tests`: the test nets, tested one after the other. `snapshot_last`: the model at the end of the
    training is saved. `batch` is the one at the beginning. `images` were trained on before the
    `first` iteration; -1: `first` times `batch`.
    """

    last: int
    batch: int
    first: int = 0
    test_interval: int = 0
    tests: tuple[NetTest, ...] = ()
    test_first: bool = False
    snapshot_interval: int = 0
    snapshot_last: bool = True
    images: int = -1


class Schedule:
    """Hands out passes and follows their completion."""

    def __init__(self, timetable: Timetable) -> None:
        self.table = timetable
        self.stage = RunStage.DRAINING
        self.issued = timetable.first  # iterations handed out
        # iterations whose update is in the model and whose workers are done
        self.completed = timetable.first
        self._last = timetable.last
        # images handed out
        self.images = (
            timetable.first * timetable.batch if timetable.images < 0 else timetable.images
        )
        self._kept = self.images  # images handed out before the present probe
        self.probed = 0  # iterations of probes so far
        self._owed: dict[int, int] = {}  # number of an iteration -> reports still missing
        self._tests = [each for test in timetable.tests for each in test.passes]  # of one test
        self._tests_issued = 0
        self._tests_missing = 0
        # iterations in the model that was tested last: no model is tested twice
        self._tested_at = timetable.first
        self._winding_down = False
        self._save_asked = self._timed_asked = self._best_asked = False
        self._change_asked = self._hold_asked = False
        # the iterations of the present probe; the held model is the one before them
        self._probe: range | None = None
        # was a checkpoint asked for while only the best model was being saved?
        self.saves_again = False
        # do the iterations of the present probe, or else of the last one, count if it ends well?
        self.keeps = False
        self._saved_at = -1  # iterations in the model that was saved last
        self._test_due = timetable.test_first and bool(self._tests)
        self._snapshot_due = False
        self._settle()

    def __repr__(self) -> str:
        return (
            f"<schedule {self.stage.value}: {self.completed} of {self._last} done, "
            f"{self.issued} handed out>"
        )

    def begin_unsettled(self, *, test: bool) -> None:
        """Begin with the work that was due when the previous run died: a test (`test`), and saving
        the state, which is in memory only."""
        every = self.table.snapshot_interval
        done = self.completed
        if test:
            self._test_due = bool(self._tests)
            self._tested_at = -1
        regular = bool(every and done % every == 0) or (self.over and self.table.snapshot_last)
        self._save_asked = regular
        self._timed_asked = not regular
        self.stage = RunStage.DRAINING
        self._settle()

    @property
    def tested_at(self) -> int:
        """Iterations in the model that was tested last, or that the run began with; -1: the model
        that the run began with is still to be tested."""
        return self._tested_at

    def next_pass(self, reports: int, at_most: int = 1, batch: int = 0) -> Pass | None:
        """The next pass for a group; None if there is nothing to do yet. The group will send
        `reports` reports about each iteration. It gets up to `at_most` iterations in a row, of
        `batch` images each (0: as in the timetable)."""
        if self.stage in (RunStage.TRAINING, RunStage.PROBING):
            first = self.issued
            boundary = self._probe.stop if self._probe else self._next_boundary(self.issued)
            self.issued = min(first + at_most, boundary)
            number = first + self.probed
            count = self.issued - first
            self._owed |= dict.fromkeys(range(number, number + count), reports)
            if self.issued == boundary:
                self.stage = RunStage.DRAINING
            rows = batch or self.table.batch
            begun = self.images
            self.images += count * rows
            return Pass(TRAIN, number, rows, count, begun, self.probed)
        if self.stage is RunStage.TESTING and self._tests_issued < len(self._tests):
            self._tests_issued += 1
            return self._tests[self._tests_issued - 1]
        return None

    def owes(self, phase: str, number: int) -> bool:
        """Is this pass under way, so that reports about it may come?"""
        if phase == TRAIN:
            return number in self._owed
        handed_out = self._tests[: self._tests_issued] if self.stage is RunStage.TESTING else []
        return any((each.phase, each.number) == (phase, number) for each in handed_out)

    def reported(self, number: int) -> bool:
        """Note one report about training iteration `number`. Returns True if it was the last one
        owed."""
        self._owed[number] -= 1
        if self._owed[number]:
            return False
        del self._owed[number]
        self.completed += 1
        self._settle()
        return True

    def again(self, number: int, reports: int) -> None:
        """Note that iteration `number`, which is under way, is done again by another group, which
        will send `reports` reports about it."""
        self._owed[number] = reports

    def tested(self) -> bool:
        """Note that one test batch is scored. Returns True if it was the last of this test."""
        self._tests_missing -= 1
        if self._tests_missing:
            return False
        self._test_due = False
        self._tested_at = self.completed
        self._settle_after_test()
        return True

    def saved(self) -> None:
        """Note that the state to save is copied, and may change again.

        A request that came while only the best model was being saved gets a checkpoint next.
        """
        if self.saves_again:
            self.saves_again = self._best_asked = False
            return
        if self.to_be_saved:
            self._saved_at = self.completed
        self._snapshot_due = self._save_asked = self._timed_asked = self._best_asked = False
        self._go_on()

    def changed(self) -> None:
        """Note that the groups have been changed as requested."""
        self._change_asked = False
        self._go_on()

    def hold(self) -> None:
        """Hand out nothing more until `released`. The run is held once all that was handed out is
        in the model."""
        self._hold_asked = True
        self._drain()

    def probe(self, iterations: int, *, kept: bool = False) -> None:
        """Hand out so many iterations of a run that is held. When they have ended, it is held
        again. They count if they are to be `kept` and nothing is due up to their end."""
        self._probe = range(self.completed, self.completed + iterations)
        self._kept = self.images
        self.keeps = kept and self._probe.stop < self._next_boundary(self.completed)
        self.stage = RunStage.PROBING

    def undo_probe(self) -> None:
        """Let the iterations of the present probe not count, even if they were to be kept."""
        self.keeps = self.keeps and self._probe is None

    def cut_probe(self, *, kept: bool = False) -> None:
        """End the probe with the iterations that were handed out. They count only if `kept`, and if
        the probe was to be kept."""
        if not kept:
            self.undo_probe()
        if self.stage is RunStage.PROBING:
            self.stage = RunStage.DRAINING
            self._settle()

    @property
    def training(self) -> bool:
        """Are training iterations handed out or under way, with nothing else due before the
        next?"""
        return self.stage is RunStage.TRAINING or (
            self.stage is RunStage.DRAINING and bool(self._owed)
        )

    def go_back(self, iterations: int, images: int) -> None:
        """Treat all that was handed out after so many iterations and images as a probe to be
        undone. When it has ended, the run is held."""
        self._probe = range(iterations, self.issued)
        self._kept = images
        self._hold_asked = True
        self.keeps = False
        self._tested_at = min(self._tested_at, iterations - 1)
        self._saved_at = min(self._saved_at, iterations - 1)
        self._last = iterations if self._winding_down else self._last
        self.stage = RunStage.DRAINING
        self._settle()

    def released(self) -> None:
        """Note that the run is no longer held."""
        self._hold_asked = False
        self._settle_after_test()

    def wind_down(self) -> None:
        """Hand out no further iteration, begin no test, save the model, then end. A hold on the run
        ends too."""
        self._winding_down = True
        self._last = self._probe.start if self._probe else self.issued
        self._test_due = False
        self.cut_probe()
        self._drain()

    def hand_over(self) -> None:
        """End at the saved model, from which another run goes on. No further iteration is handed
        out, and no test is begun."""
        self._winding_down = True
        self._last = self.completed
        self._test_due = False

    @property
    def over(self) -> bool:
        """Have all iterations been trained?"""
        return self.completed >= self._last

    @property
    def winding_down(self) -> bool:
        """Is the run to end early?"""
        return self._winding_down

    def save(self, *, timed: bool = False) -> None:
        """Save as soon as all that was handed out is in the model, then go on. `timed`: it is due
        by time."""
        self.saves_again = self.saves_again or (
            self.stage is RunStage.SAVING and not self.to_be_saved
        )
        self._save_asked = self._save_asked or not timed
        self._timed_asked = self._timed_asked or timed
        self._drain()

    def save_best(self) -> None:
        """Save the model that was just tested, before anything else. Then the run goes on as
        planned."""
        self._best_asked = True
        self.stage = RunStage.SAVING

    @property
    def best_wanted(self) -> bool:
        """Is the model that is saved now the best so far?"""
        return self._best_asked

    @property
    def save_wanted(self) -> bool:
        """Did the solver, a person or the end of the run ask for the present checkpoint?"""
        return self._snapshot_due or self._save_asked or self._last_due

    @property
    def to_be_saved(self) -> bool:
        """Must the model be saved before anything more is handed out?"""
        return self.save_wanted or self._timed_asked

    @property
    def under_way(self) -> int:
        """The number of iterations that were handed out and have not ended."""
        return len(self._owed)

    def change(self) -> None:
        """Have the groups changed as soon as all that was handed out is in the model, then go
        on."""
        self._change_asked = True
        self._drain()

    def _drain(self) -> None:
        if self.stage is RunStage.TRAINING:
            self.stage = RunStage.DRAINING
        self._settle()

    @property
    def _last_due(self) -> bool:
        """Is the present model the last of the run, and is it to be saved?"""
        trained = self.completed > self.table.first
        return trained and self.over and (self.table.snapshot_last or self._winding_down)

    def _next_boundary(self, number: int) -> int:
        """The first iteration count after `number` at which something other than training is
        due."""
        intervals = (self.table.test_interval if self._tests else 0, self.table.snapshot_interval)
        return min([self._last, *((number // every + 1) * every for every in intervals if every)])

    def _settle(self) -> None:
        """Decide what follows, if everything handed out is done."""
        if self.stage is not RunStage.DRAINING or self._owed:
            return
        if self._probe is not None:
            if not self.keeps:
                self.probed += self.completed - self._probe.start
                self.issued = self.completed = self._probe.start
                self.images = self._kept
            self._probe = None
            self.stage = RunStage.HELD
            return
        done = self.completed
        table = self.table
        trained = done > table.first
        if trained and self._tests and not self._winding_down and done != self._tested_at:
            every = table.test_interval
            self._test_due = self._test_due or self.over or bool(every and done % every == 0)
        every = table.snapshot_interval
        self._snapshot_due = (
            trained and bool(every and done % every == 0) and done != self._saved_at
        )
        if self._test_due:
            self.stage = RunStage.TESTING
            self._tests_issued = 0
            self._tests_missing = len(self._tests)
        else:
            self._settle_after_test()

    def _settle_after_test(self) -> None:
        if self.to_be_saved:
            self.stage = RunStage.SAVING
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self.over:
            self.stage = RunStage.DONE
        elif self._hold_asked:
            self.stage = RunStage.HELD
        else:
            self.stage = RunStage.CHANGING if self._change_asked else RunStage.TRAINING

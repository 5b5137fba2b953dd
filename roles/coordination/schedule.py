"""What the groups do next: training iterations, test batches, snapshots, changes, the end. Plain
decisions.

Iterations are handed out one by one, to whichever group asks, or several in a row to a group that
is alone. When a test, a snapshot or a change of the groups is due, no further iteration is handed
out until every one that was is in the model; so each sees one definite model, whatever the number
of groups.

A run that is held can be probed: iterations are handed out that do not count, unless the probe is
to be kept. The samples of a probe come again, but its numbers do not: whoever hears of an iteration
knows it by a number that only grows. Which samples an iteration has is counted by itself, since
batches may become larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from roles.messages import TEST, TRAIN


class RunStage(Enum):
    """What the run is doing."""

    TRAINING = "training"
    DRAINING = "draining"
    TESTING = "testing"
    SAVING = "saving"
    CHANGING = "changing"
    HELD = "held"
    PROBING = "probing"
    DONE = "done"


class Pass(NamedTuple):
    """What a group does next: pass `number` of this phase, on `rows` samples from the `first` on;
    and `passes` - 1 more after it, each on as many samples that follow. Of the numbers before it,
    `probed` were those of probes."""

    phase: str
    number: int
    rows: int
    passes: int = 1
    first: int = 0
    probed: int = 0


@dataclass(frozen=True)
class NetTest:
    """One test net: its phase, how many rows a test of it covers, how many of them make a batch,
    what it is called."""

    rows: int
    batch: int
    phase: str = TEST
    name: str = ""

    @property
    def passes(self) -> list[Pass]:
        """Its batches; the last one holds what is left."""
        starts = range(0, self.rows, self.batch)
        return [
            Pass(self.phase, at, min(self.batch, self.rows - start), first=start)
            for at, start in enumerate(starts)
        ]


@dataclass(frozen=True)
class Timetable:
    """When what is due. Iterations count from 0; intervals of 0 mean never. `tests`: the test nets,
    tested one after the other. `snapshot_last`: the model that is trained to the end is saved.
    `batch` is that of the beginning; `images` were trained on before the `first` iteration, -1: as
    many as that says."""

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
        # handed out
        self.images = (
            timetable.first * timetable.batch if timetable.images < 0 else timetable.images
        )
        self._kept = self.images  # handed out before the present probe
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
        # the iterations of the present probe; what is held is the model before them
        self._probe: range | None = None
        # was a checkpoint asked for while only the best model was being saved?
        self.saves_again = False
        # if it ends as it should, they are the run's; so was the last one if there is none
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
        """Before anything is handed out: what was due when the run before died is done first. That
        is to `test`, if it is said, and to save what is in memory only."""
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
        """Iterations in the model that was tested last, or that the run began with; -1: that is
        still to be."""
        return self._tested_at

    def next_pass(self, reports: int, at_most: int = 1, batch: int = 0) -> Pass | None:
        """The next thing for a group that will send `reports` reports about it, `at_most` so many
        training iterations in a row, of `batch` images (0: as the timetable says); None: nothing
        yet, ask again later."""
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
        """One report about training iteration `number` came; True if it was the last one owed."""
        self._owed[number] -= 1
        if self._owed[number]:
            return False
        del self._owed[number]
        self.completed += 1
        self._settle()
        return True

    def tested(self) -> bool:
        """One test batch is scored; True if it was the last of this test."""
        self._tests_missing -= 1
        if self._tests_missing:
            return False
        self._test_due = False
        self._tested_at = self.completed
        self._settle_after_test()
        return True

    def saved(self) -> None:
        """What was to be saved is copied, and may change again. Whoever asked while only the best
        model was being saved gets a checkpoint next."""
        if self.saves_again:
            self.saves_again = self._best_asked = False
            return
        if self.to_be_saved:
            self._saved_at = self.completed
        self._snapshot_due = self._save_asked = self._timed_asked = self._best_asked = False
        self._go_on()

    def changed(self) -> None:
        """The groups are what they were asked to be."""
        self._change_asked = False
        self._go_on()

    def hold(self) -> None:
        """Hand out nothing more as soon as what was handed out is in the model, until
        `released`."""
        self._hold_asked = True
        self._drain()

    def probe(self, iterations: int, *, kept: bool = False) -> None:
        """Hand out so many iterations of a run that is held; when they have ended, it is held
        again. If they are to be `kept` and nothing is due up to their end, they count then."""
        self._probe = range(self.completed, self.completed + iterations)
        self._kept = self.images
        self.keeps = kept and self._probe.stop < self._next_boundary(self.completed)
        self.stage = RunStage.PROBING

    def undo_probe(self) -> None:
        """The iterations of the probe that is under way shall not count, whatever was wanted."""
        self.keeps = self.keeps and self._probe is None

    def cut_probe(self, *, kept: bool = False) -> None:
        """The probe ends with the iterations that were handed out, which do not count unless it is
        `kept` as wanted."""
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
        """As if all that was handed out after so many iterations, and so many images, had been a
        probe: when it has ended, the run is held."""
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
        """Nobody holds the run any more."""
        self._hold_asked = False
        self._settle_after_test()

    def wind_down(self) -> None:
        """Hand out no further iteration and begin no test; save what there is, then end. Whoever
        holds the run is asked to release it."""
        self._winding_down = True
        self._last = self._probe.start if self._probe else self.issued
        self._test_due = False
        self.cut_probe()
        self._drain()

    def hand_over(self) -> None:
        """What is saved is where another run goes on: nothing more is handed out, and no test
        begun."""
        self._winding_down = True
        self._last = self.completed
        self._test_due = False

    @property
    def over(self) -> bool:
        """Is all trained that is to be?"""
        return self.completed >= self._last

    @property
    def winding_down(self) -> bool:
        """Is it to end before its time?"""
        return self._winding_down

    def save(self, *, timed: bool = False) -> None:
        """Save as soon as what was handed out is in the model, then go on. `timed`: nobody asked
        for it, it is time."""
        self.saves_again = self.saves_again or (
            self.stage is RunStage.SAVING and not self.to_be_saved
        )
        self._save_asked = self._save_asked or not timed
        self._timed_asked = self._timed_asked or timed
        self._drain()

    def save_best(self) -> None:
        """The model that was tested just now is to be saved before anything else; then the run goes
        on as it would."""
        self._best_asked = True
        self.stage = RunStage.SAVING

    @property
    def best_wanted(self) -> bool:
        """Is what is saved now the best model so far?"""
        return self._best_asked

    @property
    def save_wanted(self) -> bool:
        """Does the solver, a person or the end of the run ask for what is saved now?"""
        return self._snapshot_due or self._save_asked or self._last_due

    @property
    def to_be_saved(self) -> bool:
        """Is nothing more handed out before the model is saved?"""
        return self.save_wanted or self._timed_asked

    @property
    def under_way(self) -> int:
        """Iterations that were handed out and have not ended."""
        return len(self._owed)

    def change(self) -> None:
        """Let the groups be changed as soon as what was handed out is in the model, then go on."""
        self._change_asked = True
        self._drain()

    def _drain(self) -> None:
        if self.stage is RunStage.TRAINING:
            self.stage = RunStage.DRAINING
        self._settle()

    @property
    def _last_due(self) -> bool:
        """Is the model that is saved now the last, and to be saved?"""
        trained = self.completed > self.table.first
        return trained and self.over and (self.table.snapshot_last or self._winding_down)

    def _next_boundary(self, number: int) -> int:
        """The first iteration count after `number` at which something other than training is
        due."""
        intervals = (self.table.test_interval if self._tests else 0, self.table.snapshot_interval)
        return min([self._last, *((number // every + 1) * every for every in intervals if every)])

    def _settle(self) -> None:
        """If everything handed out is done, decide what follows."""
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

"""The schedule under every interleaving: each iteration once, no iteration in progress during a
test or a save, and an end."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roles.coordination.schedule import NetTest, RunStage, Schedule, Timetable
from roles.learning.phases import phase_of_test
from roles.messages import TEST, TRAIN

Event = tuple[str, int]
# stages that wait for an actor other than the workers
WAITING = (RunStage.SAVING, RunStage.CHANGING, RunStage.HELD)


class Play:
    """Groups that ask, report and finish tests in an order drawn from `choice`. Every rule is
    checked on the way."""

    def __init__(self, table: Timetable, groups: int, choice: random.Random) -> None:
        self.table = table
        self.choice = choice
        self.schedule = Schedule(table)
        self.idle = list(range(groups))
        # the number of reports about each group's passes
        self.reports = {group: 1 + group % 3 for group in range(groups)}
        # iterations that a group may still run from its last ticket
        self.in_a_row = dict.fromkeys(range(groups), 0)
        # iteration -> (group, reports still to send)
        self.training: dict[int, tuple[int, int]] = {}
        self.testing: list[int] = []  # groups with a test batch
        self.trained: list[int] = []
        self.events: list[Event] = []  # ("test" | "save", iterations in the model)
        self.rows: list[tuple[str, int, int]] = []  # (phase, number, rows) of the present test
        self.wound_down_at: int | None = None
        self.changed_at: int | None = None
        self.last_number = table.first - 1
        self.held_at: int | None = None
        self.probes: list[list[int]] = []  # the iterations of each probe
        self.samples: list[tuple[int, int]] = []  # the samples of each iteration that counts
        self.probed: list[list[tuple[int, int]]] = []  # the samples of each probe's iterations
        # the batch; after a hold it may take any value, but one ticket has one value
        self.batch = table.batch
        self.probing = False
        self.falls = 0  # how often training still returns to the point of the hold
        self.images_held = -1  # images handed out before the hold; -1 before the first release

    def run(self, *interrupts: tuple[str, int]) -> None:
        """Run to the end. Each of `interrupts` is a pair (call, step) that calls `wind_down` or
        `save` at that step."""
        steps = 0
        while self.schedule.stage is not RunStage.DONE:
            now = [what for what, at in interrupts if at == steps]
            for what in now:
                self.interrupt(what)
            if not now:
                self.step()
            steps += 1
            assert steps < 10_000, "the schedule does not end"
        assert not self.training and not self.testing
        assert self.schedule.next_pass(1) is None

    def interrupt(self, what: str) -> None:
        if what == "wind_down":
            self.schedule.wind_down()
            self.wound_down_at = len(self.trained)
        elif what == "save":
            self.schedule.save()
        elif what == "hold":
            self.schedule.hold()
        else:
            self.schedule.change()

    def step(self) -> None:
        moves = (
            [self.ask] * bool(self.idle)
            + [self.report] * bool(self.training)
            + [self.score] * bool(self.testing)
        )
        if self.schedule.stage is RunStage.SAVING:
            assert not self.training and not self.testing, "a pass was in progress while saving"
            moves.append(self.save)
        if self.schedule.stage is RunStage.CHANGING:
            assert not self.training and not self.testing, "a pass was in progress while changing"
            moves.append(self.change)
        if self.schedule.stage is RunStage.HELD:
            assert not self.training and not self.testing, (
                "a pass was in progress while the run was held"
            )
            moves.append(self.while_held)
        if self.schedule.stage is RunStage.PROBING:
            moves.append(self.schedule.cut_probe)
        if self.falls and self.images_held >= 0 and self.schedule.training and not self.probing:
            moves.append(self.fall)
        self.choice.choice(moves)()

    def ask(self) -> None:
        group = self.choice.choice(self.idle)
        most = self.choice.randint(1, 4)
        if not self.training:
            self.batch = self.table.batch * self.choice.randint(1, 3)
        ticket = self.schedule.next_pass(self.reports[group], most, self.batch)
        if ticket is None:
            assert self.training or self.testing or self.schedule.stage in WAITING, (
                "no group has work and the schedule waits for no other actor"
            )
            return
        self.idle.remove(group)
        if ticket.phase == TRAIN:
            assert self.wound_down_at is None, "trained on after winding down"
            assert ticket.rows == self.batch
            assert 1 <= ticket.passes <= most
            numbers = range(ticket.number, ticket.number + ticket.passes)
            self.training |= dict.fromkeys(numbers, (group, self.reports[group]))
            assert ticket.number == self.last_number + 1, (
                "an iteration number was given twice, or left out"
            )
            self.last_number = numbers[-1]
            (self.probes[-1] if self.probing else self.trained).extend(
                n - self.schedule.probed for n in numbers
            )
            starts = [ticket.first + at * ticket.rows for at in range(ticket.passes)]
            spans = self.probed[-1] if self.probing else self.samples
            spans.extend((start, start + ticket.rows) for start in starts)
            self.in_a_row[group] = ticket.passes
        else:
            assert ticket.phase.startswith(TEST)
            assert ticket.passes == 1
            assert self.schedule.owes(ticket.phase, ticket.number)
            assert not self.training, "an iteration was under way while testing"
            self.testing.append(group)
            self.rows.append((ticket.phase, ticket.number, ticket.rows))

    def report(self) -> None:
        number = self.choice.choice(list(self.training))
        group, missing = self.training.pop(number)
        whole = self.schedule.reported(number)
        assert whole == (missing == 1)
        if whole:
            self.in_a_row[group] -= 1
            self.idle += [group] * (self.in_a_row[group] == 0)
        else:
            self.training[number] = (group, missing - 1)

    def score(self) -> None:
        self.idle.append(self.testing.pop(self.choice.randrange(len(self.testing))))
        if self.schedule.tested():
            assert not self.testing
            for test in self.table.tests:
                mine = [(number, rows) for phase, number, rows in self.rows if phase == test.phase]
                assert [number for number, _ in mine] == list(range(len(mine)))
                assert sum(rows for _, rows in mine) == test.rows
                assert all(0 < rows <= test.batch for _, rows in mine)
            order = [test.phase for test in self.table.tests if test.rows]
            assert list(dict.fromkeys(phase for phase, _, _ in self.rows)) == order, (
                "the test nets must take turns, one after the other"
            )
            self.rows = []
            self.events.append(("test", self.schedule.completed))

    def save(self) -> None:
        self.schedule.saved()
        self.events.append(("save", self.schedule.completed))

    def while_held(self) -> None:
        self.probing = False
        at = self.schedule.completed
        assert self.held_at in (None, at), "a probe changed the model"
        self.held_at = at
        if not self.schedule.winding_down and len(self.probes) < 3:
            self.schedule.probe(self.choice.randint(1, 9))
            self.probes.append([])
            self.probed.append([])
            self.probing = True
        else:
            self.images_held = self.schedule.images
            self.schedule.released()

    def fall(self) -> None:
        """Undo all iterations since the hold."""
        assert self.held_at is not None
        self.falls -= 1
        self.schedule.go_back(self.held_at, self.images_held)
        self.images_held = -1
        kept = self.held_at - self.table.first
        self.trained = self.trained[:kept]
        self.samples = self.samples[:kept]
        self.events = [event for event in self.events if event[1] <= self.held_at]

    def each_sample_comes_once(self) -> bool:
        """Whether each sample comes once, in order, from the first on. The samples of every probe
        must be the next ones of the run."""
        begin = self.table.first * self.table.batch if self.table.images < 0 else self.table.images
        ends = [begin, *(high for _, high in self.samples)]
        held = ends[(self.held_at or 0) - self.table.first] if self.probed else 0
        runs = [(begin, self.samples), *((held, spans) for spans in self.probed)]
        return all(
            [low for low, _ in spans] == [at, *(high for _, high in spans)][: len(spans)]
            for at, spans in runs
        )

    def change(self) -> None:
        self.schedule.changed()
        self.changed_at = self.schedule.completed


def expected(table: Timetable) -> list[Event]:
    """Tests and saves according to the timetable's docstring, by a plain loop."""
    found: list[Event] = []
    tested = any(test.rows for test in table.tests)
    if table.test_first and tested:
        found.append(("test", table.first))
    for done in range(table.first + 1, table.last + 1):
        end = done == table.last
        if tested and (end or (table.test_interval and done % table.test_interval == 0)):
            found.append(("test", done))
        if (end and table.snapshot_last) or (
            table.snapshot_interval and done % table.snapshot_interval == 0
        ):
            found.append(("save", done))
    return found


@st.composite
def timetables(draw: st.DrawFn) -> Timetable:
    first = draw(st.integers(0, 10))
    return Timetable(
        first=first,
        last=first + draw(st.integers(0, 12)),
        batch=4,
        test_interval=draw(st.integers(0, 5)),
        tests=tuple(
            NetTest(draw(st.integers(0, 7)), draw(st.integers(1, 4)), phase_of_test(number))
            for number in range(draw(st.integers(0, 2)))
        ),
        snapshot_last=draw(st.booleans()),
        test_first=draw(st.booleans()),
        snapshot_interval=draw(st.integers(0, 5)),
        images=draw(st.sampled_from([-1, 0, 17])),
    )


everything = {
    "table": timetables(),
    "groups": st.integers(1, 4),
    "choice": st.integers(0, 2**32).map(random.Random),
}


@settings(max_examples=100, deadline=None)
@given(**everything)
def test_every_iteration_is_handed_out_once_in_order_and_tests_and_saves_come_when_they_are_due(
    table: Timetable, groups: int, choice: random.Random
) -> None:
    play = Play(table, groups, choice)
    play.run()
    assert play.trained == list(range(table.first, table.last))
    assert play.events == expected(table)
    assert play.schedule.completed == table.last
    assert play.each_sample_comes_once()
    assert (
        play.schedule.images == ([high for _, high in play.samples] or [play.schedule.images])[-1]
    )


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 60), **everything)
def test_winding_down_at_any_point_trains_no_further_saves_the_model_and_ends(
    table: Timetable, groups: int, choice: random.Random, at: int
) -> None:
    play = Play(table, groups, choice)
    play.run(("wind_down", at))
    assert play.trained == list(range(table.first, table.first + len(play.trained)))
    assert play.each_sample_comes_once()
    if play.trained and (table.snapshot_last or play.wound_down_at is not None):
        assert play.events[-1] == ("save", table.first + len(play.trained))
    if play.wound_down_at is not None:
        assert len(play.trained) == play.wound_down_at


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 60), **everything)
def test_a_save_asked_for_at_any_point_is_one_save_more_at_most_and_changes_nothing_else(
    table: Timetable, groups: int, choice: random.Random, at: int
) -> None:
    play = Play(table, groups, choice)
    play.run(("save", at))
    assert play.trained == list(range(table.first, table.last))
    planned = expected(table)
    assert [event for event in play.events if event[0] == "test"] == [
        e for e in planned if e[0] == "test"
    ]
    saves, planned_saves = (
        [count for what, count in events if what == "save"] for events in (play.events, planned)
    )
    assert saves == sorted(saves)
    extra = list(saves)
    for count in planned_saves:
        extra.remove(count)
    assert len(extra) <= 1


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 60), **everything)
def test_a_change_asked_for_at_any_point_happens_between_two_iterations_and_changes_nothing_else(
    table: Timetable, groups: int, choice: random.Random, at: int
) -> None:
    play = Play(table, groups, choice)
    play.run(("change", at))
    assert play.trained == list(range(table.first, table.last))
    assert play.events == expected(table)
    if play.changed_at is not None:
        assert table.first <= play.changed_at < table.last


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 60), **everything)
def test_a_hold_at_any_point_repeats_the_same_batches_and_changes_nothing_else(
    table: Timetable, groups: int, choice: random.Random, at: int
) -> None:
    play = Play(table, groups, choice)
    play.run(("hold", at))
    assert play.trained == list(range(table.first, table.last))
    assert play.events == expected(table)
    assert all(probe == [play.held_at + n for n in range(len(probe))] for probe in play.probes)
    assert play.each_sample_comes_once()
    assert play.schedule.probed == sum(map(len, play.probes))


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 30), falls=st.integers(1, 3), **everything)
def test_training_that_returns_to_the_hold_repeats_every_iteration(
    table: Timetable, groups: int, choice: random.Random, at: int, falls: int
) -> None:
    play = Play(table, groups, choice)
    play.falls = falls
    play.run(("hold", at))
    assert play.trained == list(range(table.first, table.last))
    assert play.events == expected(table)
    assert play.each_sample_comes_once()
    assert play.schedule.completed == table.last


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 30), later=st.integers(0, 60), **everything)
def test_winding_down_while_returning_to_the_hold_ends_with_the_present_model(
    table: Timetable, groups: int, choice: random.Random, at: int, later: int
) -> None:
    play = Play(table, groups, choice)
    play.falls = 1
    play.run(("hold", at), ("wind_down", at + 1 + later))
    done = play.schedule.completed
    assert play.trained == list(range(table.first, done))
    if play.wound_down_at is not None and done > table.first:
        assert ("save", done) in play.events


def drained(table: Timetable) -> Schedule:
    """A schedule whose first iterations have ended one by one, up to its first test, save or
    end."""
    made = Schedule(table)
    while made.stage is RunStage.TRAINING:
        ticket = made.next_pass(1)
        assert ticket is not None
        made.reported(ticket.number)
    return made


def test_winding_down_during_a_test_still_saves_the_model_under_test() -> None:
    made = drained(Timetable(last=10, batch=1, test_interval=2, tests=(NetTest(2, 1),)))
    assert made.stage is RunStage.TESTING
    made.next_pass(1)
    made.wind_down()
    made.next_pass(1)
    assert not made.tested()
    assert made.tested()
    assert made.stage is RunStage.SAVING
    made.saved()
    assert made.stage is RunStage.DONE
    assert made.completed == 2


def test_winding_down_before_the_first_iteration_ends_at_once_with_nothing_to_save() -> None:
    made = Schedule(Timetable(last=10, batch=1))
    made.wind_down()
    assert made.stage is RunStage.DONE


def test_a_requested_save_waits_only_for_passes_in_progress() -> None:
    made = Schedule(Timetable(last=10, batch=1))
    first = made.next_pass(2)
    second = made.next_pass(1)
    assert first is not None
    assert second is not None
    made.save()
    assert made.next_pass(1) is None
    assert made.reported(second.number)
    assert not made.reported(first.number)
    assert made.stage is RunStage.DRAINING
    assert made.reported(first.number)
    assert made.stage is RunStage.SAVING
    made.saved()
    assert made.stage is RunStage.TRAINING


def test_a_save_asked_for_right_after_a_test_does_not_test_the_same_model_again() -> None:
    made = drained(Timetable(last=10, batch=1, test_interval=2, tests=(NetTest(1, 1),)))
    made.next_pass(1)
    assert made.tested()
    assert made.stage is RunStage.TRAINING
    made.save()
    assert made.stage is RunStage.SAVING


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (7, 3), (6, 3), (3, 7)])
def test_the_last_test_batch_has_the_remaining_rows(rows: int, batch: int) -> None:
    made = drained(Timetable(last=1, batch=1, tests=(NetTest(rows, batch),)))
    tickets = [made.next_pass(1) for _ in range(math.ceil(rows / batch))]
    assert sum(ticket.rows for ticket in tickets if ticket is not None) == rows
    assert made.next_pass(1) is None


def test_a_schedule_shows_its_state_in_one_line() -> None:
    made = Schedule(Timetable(first=2, last=10, batch=1))
    made.next_pass(1)
    assert repr(made) == "<schedule training: 2 of 10 done, 3 handed out>"

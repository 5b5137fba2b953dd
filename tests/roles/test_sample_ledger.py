"""The ledger of samples, and the part that workers have in a run while they come and go."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from roles.coordination.attendance import Attendance
from roles.coordination.sample_ledger import Pass, SampleLedger
from roles.messages import TEST, TRAIN

BATCH = 4


def passes(number: int, count: int, phase: str = TRAIN) -> Pass:
    """Passes on whole batches in the order of their numbers."""
    return Pass(phase, number, BATCH, count, number * BATCH)


def test_the_passes_of_a_worker_that_is_gone_are_handed_out_again_in_their_order() -> None:
    ledger = SampleLedger()
    ledger.hand_out("a", passes(0, 3))
    ledger.hand_out("b", passes(3, 2))
    ledger.hand_out("a", passes(5, 2))
    assert ledger.again(9) is None
    assert ledger.give_back("a").again == tuple((TRAIN, number) for number in (0, 1, 2, 5, 6))
    assert ledger.again(2) == passes(0, 2)
    assert ledger.again(9) == passes(2, 1)
    assert ledger.again(9) == passes(5, 2)
    assert ledger.again(9) is None


def test_passes_that_are_merged_are_never_given_back() -> None:
    ledger = SampleLedger()
    ledger.hand_out("a", passes(0, 4))
    for number in (0, 1):
        ledger.merged(TRAIN, number)
    ledger.ended(TRAIN, 0)
    back = ledger.give_back("a")
    assert back.again == ((TRAIN, 2), (TRAIN, 3))
    assert back.merged == ((TRAIN, 1),)


def test_passes_are_given_back_once() -> None:
    ledger = SampleLedger()
    ledger.hand_out("a", passes(0, 2))
    assert len(ledger.give_back("a").again) == 2
    assert ledger.give_back("a").again == ()
    again = ledger.again(9)
    assert again is not None
    ledger.hand_out("b", again)
    assert ledger.give_back("a").again == ()
    assert len(ledger.give_back("b").again) == 2


def test_the_passes_of_a_test_are_given_back_too() -> None:
    ledger = SampleLedger()
    ledger.hand_out("a", passes(0, 1, TEST))
    ledger.hand_out("a", passes(1, 1, TEST))
    ledger.ended(TEST, 0)
    assert ledger.give_back("a").again == ((TEST, 1),)
    assert ledger.again(1) == passes(1, 1, TEST)


@given(seed=st.integers(0, 10**6), workers=st.integers(1, 5), iterations=st.integers(1, 60))
def test_whatever_dies_each_sample_is_merged_once(seed: int, workers: int, iterations: int) -> None:
    drawn = random.Random(seed)
    ledger = SampleLedger()
    has: dict[str, Pass] = {}
    merged: Counter[int] = Counter()
    issued = 0
    while sum(merged.values()) < iterations * BATCH:
        worker = f"w{drawn.randrange(workers)}"
        if worker not in has:
            count = drawn.randint(1, 5)
            given = ledger.again(count)
            if given is None and issued < iterations:
                given = passes(issued, min(count, iterations - issued))
                issued += given.passes
            if given is not None:
                ledger.hand_out(worker, given)
                has[worker] = given
        elif drawn.random() < 0.3:
            del has[worker]
            assert ledger.give_back(worker).merged == ()
        else:
            done = has.pop(worker)
            merged.update(range(done.first, done.first + done.passes * done.rows))
            for number in range(done.number, done.number + done.passes):
                ledger.merged(TRAIN, number)
                ledger.ended(TRAIN, number)
    assert merged == Counter(range(iterations * BATCH))


def test_a_worker_that_has_died_joins_before_it_takes_part_again() -> None:
    attendance = Attendance(["a", "b"])
    assert attendance.lost(["a", "server"]) == ["a"]
    assert not attendance.takes_part("a")
    assert attendance.takes_part("b")
    assert attendance.joins("a") == 0, "its server may still merge a gain of its former life"
    assert attendance.abandoned("a")
    life = attendance.joins("a")
    assert life == 1
    assert not attendance.takes_part("a")
    assert attendance.joins("a") == 0, "it joins already"
    assert attendance.joined("a", life)
    assert attendance.takes_part("a")


def test_a_worker_that_dies_while_it_joins_is_abandoned_again() -> None:
    attendance = Attendance(["a"])
    attendance.lost(["a"])
    attendance.abandoned("a")
    life = attendance.joins("a")
    assert attendance.lost(["a"]) == ["a"]
    assert not attendance.joined("a", life)
    assert attendance.abandoned("a")
    assert attendance.joined("a", attendance.joins("a"))


def test_a_worker_that_dies_twice_before_it_joins_is_abandoned_once() -> None:
    attendance = Attendance(["a"])
    assert attendance.lost(["a"]) == ["a"]
    assert attendance.lost(["a"]) == []
    assert attendance.abandoned("a")
    assert not attendance.abandoned("a")
    assert attendance.lost(["a"]) == []
    assert attendance.joins("a") == 3


def test_what_a_former_life_of_a_worker_has_asked_for_is_not_answered() -> None:
    attendance = Attendance(["a", "b"])
    attendance.asks("a", 1)
    attendance.lost(["a"])
    attendance.abandoned("a")
    assert attendance.is_former("a", 1)
    attendance.asks("a", 2)
    assert not attendance.is_former("a", 2)
    assert attendance.is_former("a", 1)
    assert not attendance.is_former("b", 1)


def test_workers_that_never_leave_always_take_part() -> None:
    attendance = Attendance([])
    assert attendance.lost(["a"]) == []
    assert attendance.takes_part("a")
    assert "a" not in attendance

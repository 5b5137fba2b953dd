"""The threads of a team: they live while a backend uses the team, and end afterwards."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest

from ops import get_backend
from ops.cpu.codegen.compiled import addresses
from ops.cpu.team import team as teams
from ops.cpu.team.fast import Fast
from ops.cpu.team.handover import (
    ALONE,
    ASLEEP,
    FIELDS,
    KEPT,
    LEAST_ALONE,
    LEAST_LATE,
    MOST_ALONE,
    PENALTY,
    build_handover,
)
from ops.cpu.team.team import LINE, Team


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kernels-")}


def test_a_team_without_users_ends_its_threads() -> None:
    before = threads()
    team = Team(3)
    made = threads() - before
    assert len(made) == 2
    gone = weakref.ref(team)
    del team
    gc.collect()
    assert gone() is None
    for thread in made:
        thread.join(10)
    assert not any(thread.is_alive() for thread in made)


def test_a_backend_that_has_computed_leaves_no_thread_behind() -> None:
    before = threads()
    ops = get_backend("cpu", threads=2)
    a = np.ones((64, 256), np.float32)
    np.testing.assert_array_equal(ops.add(a, a), 2 * a)
    made = threads() - before
    del ops
    gc.collect()
    for thread in made:
        thread.join(10)
    assert not any(thread.is_alive() for thread in made)


@pytest.mark.skipif(
    teams._core is None, reason=("no calls to ask for a thread's core or to choose it")
)
def test_a_woken_thread_leaves_the_core_of_the_thread_that_woke_it() -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core")
    seen: list[tuple[set[int], int]] = []

    def woken_here() -> None:
        here = min(allowed)
        os.sched_setaffinity(0, {here})  # now this thread is on that core
        os.sched_setaffinity(0, allowed)
        cores = np.array([here, -1, -1])
        teams._settle(cores, 1)
        seen.append((os.sched_getaffinity(0), int(cores[1]) - here))

    thread = threading.Thread(target=woken_here)
    thread.start()
    thread.join()
    ((afterwards, apart),) = seen
    assert afterwards == allowed  # the woken thread may run on any core again
    assert apart != 0


def test_a_thread_that_may_not_choose_its_core_stays_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[set[int]] = []

    def forbidden(pid: int, cores: set[int]) -> None:
        asked.append(cores)
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(teams, "_core", lambda: 0)
    cores = np.array([0, -1])
    teams._settle(cores, 1)
    assert asked == [{1}]
    assert cores[1] == 0


class NoDoor:
    """The lock of a sleeping thread that nobody opens, as if its core were never free."""

    def release(self) -> None: ...


def test_the_caller_runs_the_shares_of_threads_that_do_not_come() -> None:
    ops = get_backend("cpu", threads=3)
    assert isinstance(ops, Fast)
    rng = np.random.default_rng(1)
    a = rng.standard_normal((96, 512), np.float32)
    b = rng.standard_normal((512, 256), np.float32)
    expected = ops.matmul(a, b, np.empty((96, 256), np.float32)).copy()
    team = ops.team
    asleep = team._state[FIELDS * LINE :: LINE]
    while not (asleep[1:] == ASLEEP).all():  # 0.3 ms after the last kernel
        time.sleep(0.001)
    doors, team._locks = team._locks, [NoDoor(), NoDoor()]  # type: ignore[list-item]
    out = np.empty((96, 256), np.float32)
    caller = threading.Thread(target=ops.matmul, args=(a, b, out), daemon=True)
    caller.start()
    caller.join(30)
    assert not caller.is_alive()
    np.testing.assert_array_equal(out, expected)  # the same bits, whoever ran a share
    team._locks = doors
    for door in doors:
        door.release()
    np.testing.assert_array_equal(ops.matmul(a, b, out), expected)  # late threads find no share


def fall_asleep(team: Team) -> None:
    """Wait until every thread of the team sleeps."""
    end = time.monotonic() + 60
    while not (team._state[(FIELDS + 1) * LINE :: LINE] == ASLEEP).all():
        assert time.monotonic() < end, "a thread was not woken"
        time.sleep(0.001)


def test_a_team_of_more_than_64_threads_wakes_each_of_them() -> None:
    ops = get_backend("cpu", threads=70)
    assert isinstance(ops, Fast)
    rng = np.random.default_rng(1)
    a = rng.standard_normal((512, 64), np.float32)
    b = rng.standard_normal((64, 48), np.float32)
    expected = get_backend("cpu").matmul(a, b, np.empty((512, 48), np.float32))
    for _ in range(3):
        out = np.empty_like(expected)
        np.testing.assert_array_equal(ops.matmul(a, b, out), expected)
        fall_asleep(ops.team)
        ops.team._state[FIELDS * LINE + ALONE] = 0  # the caller does not run the next kernel alone


def test_a_team_ends_a_thread_that_has_not_woken_yet() -> None:
    before = threads()
    team = Team(2)
    (made,) = threads() - before
    state, (door,) = team._state, team._locks
    while state[(FIELDS + 1) * LINE] != ASLEEP:
        time.sleep(0.001)
    door.release()
    del team
    gc.collect()
    made.join(10)
    assert not made.is_alive()


def test_the_caller_alone_leaves_the_same_bits_for_as_long_as_it_is_to() -> None:
    ops = get_backend("cpu", threads=2)
    assert isinstance(ops, Fast)
    rng = np.random.default_rng(2)
    a = rng.standard_normal((96, 512), np.float32)
    b = rng.standard_normal((512, 256), np.float32)
    expected = ops.matmul(a, b, np.empty((96, 256), np.float32)).copy()
    state = ops.team._state[FIELDS * LINE :]
    far = time.monotonic_ns() + 10**12
    state[ALONE] = far
    fall_asleep(ops.team)
    for _ in range(3):
        out = ops.matmul(a, b, np.zeros((96, 256), np.float32))
        np.testing.assert_array_equal(out, expected)
        assert state[ALONE] == far
        assert state[LINE] == ASLEEP  # nobody woke the other thread
    state[ALONE] = time.monotonic_ns() - 1
    np.testing.assert_array_equal(ops.matmul(a, b, np.zeros_like(expected)), expected)
    assert state[ALONE] != far


class Judged:
    """A team's state, and what is found after one kernel. Times in nanoseconds."""

    def __init__(self) -> None:
        at = addresses("handover", build_handover)("judge")
        self._judge = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(at)
        self._state = np.zeros((FIELDS + 2) * LINE, np.int64)
        self.caller = self._state[FIELDS * LINE :]
        self.caller[PENALTY] = LEAST_ALONE
        self.now = 10**9

    def kernel(self, own: int, waited: int, kept: int) -> int:
        """For how long the caller is to run kernels alone from now on."""
        self.now += own + waited
        self._state[KEPT * LINE] = kept
        self._judge(self._state.ctypes.data, waited, own, self.now)
        return max(int(self.caller[ALONE]) - self.now, 0)


def test_a_team_with_unequal_shares_is_not_late() -> None:
    judged = Judged()
    for _ in range(20):
        assert judged.kernel(own=5_000_000, waited=10_000_000, kept=30_000) == 0
        assert judged.kernel(own=0, waited=3_000_000, kept=0) == 0


def test_a_thread_kept_from_its_core_is_late_only_if_the_caller_waits_longer_than_it_computed() -> (
    None
):
    judged = Judged()
    assert judged.kernel(own=5_000_000, waited=4_000_000, kept=4_000_000) == 0
    assert judged.kernel(own=0, waited=LEAST_LATE, kept=LEAST_LATE) == 0
    assert judged.kernel(own=1_000_000, waited=3_000_000, kept=1_600_000) == LEAST_ALONE


def test_the_time_alone_doubles_with_each_late_kernel_and_halves_with_each_as_long_in_time() -> (
    None
):
    judged = Judged()
    for wait in (LEAST_ALONE << doubled for doubled in range(20)):
        alone = judged.kernel(own=0, waited=3_000_000, kept=3_000_000)
        assert alone == min(wait, MOST_ALONE)
        judged.now += alone
    penalty = MOST_ALONE
    while penalty > LEAST_ALONE:
        assert judged.caller[PENALTY] == penalty
        judged.kernel(own=penalty - 1000, waited=0, kept=0)
        assert judged.caller[PENALTY] == penalty
        judged.kernel(own=2000, waited=0, kept=0)
        penalty //= 2
    assert judged.kernel(own=10 * MOST_ALONE, waited=0, kept=0) == 0
    assert judged.caller[PENALTY] == LEAST_ALONE

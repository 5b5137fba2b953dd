"""The threads of a team: they live while a backend uses the team, and end afterwards."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest

from ops import get_backend
from ops.cpu.team import team as teams
from ops.cpu.team.fast import Fast
from ops.cpu.team.handover import ALONE, ASLEEP, FIELDS
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


def test_the_caller_alone_leaves_the_same_bits_for_as_many_kernels_as_it_is_to() -> None:
    ops = get_backend("cpu", threads=2)
    assert isinstance(ops, Fast)
    rng = np.random.default_rng(2)
    a = rng.standard_normal((96, 512), np.float32)
    b = rng.standard_normal((512, 256), np.float32)
    expected = ops.matmul(a, b, np.empty((96, 256), np.float32)).copy()
    state = ops.team._state[FIELDS * LINE :]
    state[ALONE] = 3
    for left in (2, 1, 0):
        out = ops.matmul(a, b, np.zeros((96, 256), np.float32))
        np.testing.assert_array_equal(out, expected)
        assert state[ALONE] == left
    np.testing.assert_array_equal(ops.matmul(a, b, np.zeros_like(expected)), expected)

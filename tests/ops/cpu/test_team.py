"""The threads of a team: there while somebody uses it, gone afterwards."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np

from ops import get_backend
from ops.cpu.team import Team


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kernels-")}


def test_a_team_that_nobody_uses_any_more_ends_its_threads() -> None:
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

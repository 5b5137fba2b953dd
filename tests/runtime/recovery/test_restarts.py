"""The decision whether a run restarts or has ended for good."""

from __future__ import annotations

import pytest

from runtime.errors import ConfigError, ConvoyError, LaunchError, ProgramFailed, RoleDied
from runtime.recovery.restarts import LONGEST, Restarts

DIED = RoleDied("conv-0-0 died")


def test_a_run_that_lost_a_process_restarts_at_once() -> None:
    restart = Restarts(3, 600, 1).after(DIED, 10.0, began=True)
    assert restart is not None
    assert (restart.seconds, restart.text) == (0.0, "1 of 3 within 600 s")


@pytest.mark.parametrize(
    "error", [ProgramFailed("a loss of NaN"), ConfigError(["no net"]), LaunchError("no python")]
)
def test_an_error_that_would_occur_again_ends_the_run(error: ConvoyError) -> None:
    assert Restarts(3, 600, 1).after(error, 10.0, began=True) is None


def test_a_machine_that_is_still_gone_is_waited_for_twice_as_long_each_time() -> None:
    restarts = Restarts(20, 1e6, 1)
    assert restarts.after(DIED, 0.0, began=True) is not None
    waits = [
        restarts.after(LaunchError("no route"), 1.0 + number, began=False) for number in range(8)
    ]
    assert [wait.seconds for wait in waits if wait] == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]
    again = restarts.after(DIED, 100.0, began=True)
    assert again is not None
    assert again.seconds == 0.0


def test_too_many_restarts_within_the_window_end_the_run_with_a_reason() -> None:
    restarts = Restarts(2, 60, 1)
    assert [bool(restarts.after(DIED, now, began=True)) for now in (0.0, 30.0, 59.0)] == [
        True,
        True,
        False,
    ]
    assert "2 times within 60 s" in restarts.why_not


def test_restarts_of_long_ago_do_not_count() -> None:
    restarts = Restarts(2, 60, 1)
    assert all(restarts.after(DIED, now, began=True) for now in (0.0, 30.0, 60.0, 90.0, 120.0))


def test_without_the_key_no_run_restarts() -> None:
    restarts = Restarts(0, 600, 1)
    assert (restarts.after(DIED, 0.0, began=True), restarts.why_not) == (None, "")


def test_a_machine_missing_at_the_begin_of_a_scaled_run_is_waited_for_without_a_death() -> None:
    restarts = Restarts(3, 600.0, 1.0)
    assert restarts.after(LaunchError("of the first run"), 0.0, began=False) is None
    restarts.followed()
    found = restarts.after(LaunchError("of the one that follows"), 1.0, began=False)
    assert found is not None and found.seconds == 1.0

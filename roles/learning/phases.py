"""The phases of test nets in messages and jobs: "TEST", "TEST 1", "TEST 2", ..."""

from __future__ import annotations

from roles.messages import TEST


def phase_of_test(number: int) -> str:
    """The phase of test net `number`."""
    return f"{TEST} {number}" if number else TEST


def number_of_test(phase: str) -> int:
    """The number of the test net of this phase."""
    return int(phase.removeprefix(TEST) or 0)

"""Durations are shown in the units of their size."""

from __future__ import annotations

import math

import pytest

from runtime.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.01234, "12.3 ms"),
        (0.9996, "1 s"),
        (99.4, "99.4 s"),
        (725, "12 min 5 s"),
        (12_000, "3 h 20 min"),
        (360_000, "4 days 4 h"),
        (-0.5, "-0.5 s"),
        (math.inf, "inf s"),
        (math.nan, "nan s"),
    ],
)
def test_a_duration_is_shown_in_the_units_of_its_size(seconds: float, text: str) -> None:
    assert duration(seconds) == text

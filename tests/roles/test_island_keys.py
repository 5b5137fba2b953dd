"""The keys of the preset `islands`: a value that cannot be meant is refused with its key."""

from __future__ import annotations

from typing import Any

import pytest

from roles.presets.islands import Keys


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"quorum": "most"}, "quorum: found 'most', expected 'grace' or 'all'"),
        ({"steps": "same"}, "steps: found 'same', expected 'speed' or 'equal'"),
        ({"grace": -1.0}, "grace: found -1.0, expected seconds >= 0 and < 3600"),
        ({"period": -3}, "period: found -3, expected an integer >= 0"),
        ({"speeds": (0.0, 1.0)}, r"speeds: found \(0.0, 1.0\), expected numbers > 1e-9"),
        ({"speeds": (1e-320, 1.0)}, r"speeds: found \(1e-320, 1.0\), expected numbers > 1e-9"),
        ({"outer_rate": 0.0}, "outer_rate: found 0.0, expected a number > 0"),
        ({"outer_momentum": 1.0}, "outer_momentum: found 1.0, expected a number >= 0 and < 1"),
        ({"quorum": "all", "grace": 1.0}, "grace: found 1.0, expected no window, since"),
    ],
)
def test_a_key_that_cannot_be_meant_is_refused(said: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Keys(**said)


def test_all_keys_that_cannot_be_meant_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="grace: found") as told:
        Keys(grace=-1.0, period=-3, steps="slow")
    assert [line.partition(":")[0] for line in str(told.value).splitlines()] == [
        "steps",
        "grace",
        "period",
    ]


def test_the_defaults_suit_both_quorums() -> None:
    assert [Keys(quorum=quorum).together for quorum in ("grace", "all")] == [False, True]

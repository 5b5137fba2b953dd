"""Runs that take turns in a benchmark: the other runs stand still, and every process has ended
afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.helpers.survivor import living
from benchmarks.helpers.turns import PARTS, Sleeper, Turns, below, taken
from benchmarks.metrics import UNOBSERVED, written


def test_a_rate_covers_all_turns_and_each_part_covers_a_fifth_of_them() -> None:
    turns = Turns([0, 10] * 5, [1.0] * 10)
    assert turns.rate == 5.0
    assert turns.parts() == [5.0] * PARTS
    assert Turns([4], [2.0]).parts() == [2.0]


@pytest.mark.slow
def test_one_run_works_while_the_others_stand_still_and_nothing_is_left(tmp_path: Path) -> None:
    made: list[Sleeper] = []

    def said(sleeper: Sleeper) -> str:
        return sleeper.run.last("progress")

    def beside(awake: Sleeper, seconds: float) -> None:
        others = [sleeper for sleeper in made if sleeper is not awake]
        before = [said(sleeper) for sleeper in others]
        awake.run.told("progress", seconds + 10)
        assert [said(sleeper) for sleeper in others] == before

    def start(name: str) -> Sleeper:
        made.append(Sleeper(written(tmp_path / name, UNOBSERVED), beside=beside))
        return made[-1]

    found = taken({name: lambda name=name: start(name) for name in ("a", "b")}, 5, 0.1)
    assert all(sum(turns.iterations) > 0 and len(turns.seconds) == 5 for turns in found.values())
    assert not any(living(pid) for sleeper in made for pid in below(sleeper.run.process.pid))

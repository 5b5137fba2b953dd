"""Checkpoints by time: when they are due, which are removed, and which one is the newest. Decisions
without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles.checkpoints.checkpoint_timing import MOST_EXPOSED, NEVER, CheckpointTiming, Timing
from roles.checkpoints.newest import newest


def paths(*numbers: int) -> list[Path]:
    return [Path(f"checkpoint-{number:07d}.safetensors") for number in numbers]


def test_a_checkpoint_is_due_when_its_seconds_are_over_and_never_without_seconds() -> None:
    rhythm = CheckpointTiming(Timing(10.0))
    never = CheckpointTiming(NEVER)
    for each in (rhythm, never):
        assert not each.due(1e9)
        each.next(100.0)
    assert [rhythm.due(now) for now in (100.0, 109.9, 110.0)] == [False, False, True]
    assert not never.due(1e9)


def test_the_interval_keeps_the_share_of_time_that_training_waits_to_a_hundredth() -> None:
    rhythm = CheckpointTiming(Timing(10.0))
    assert rhythm.next(0.0, exposed=0.05) == 10.0
    assert rhythm.next(0.0, exposed=0.5) == 0.5 / MOST_EXPOSED == 50.0


def test_the_last_checkpoints_by_time_stay_and_all_requested_ones() -> None:
    rhythm = CheckpointTiming(Timing(1.0, keep=2))
    removed = []
    for path, asked in zip(
        paths(1, 2, 3, 4, 5, 6), (False, True, False, False, True, False), strict=True
    ):
        removed += rhythm.written(path, for_good=asked)
    assert removed == paths(1, 3)


def test_a_checkpoint_by_time_that_is_requested_later_is_never_removed() -> None:
    rhythm = CheckpointTiming(Timing(1.0, keep=1))
    one, other, third = paths(1, 2, 3)
    assert rhythm.written(one, for_good=False) == []
    assert rhythm.written(one, for_good=True) == []
    assert rhythm.written(other, for_good=False) == []
    assert rhythm.written(third, for_good=False) == [other]


@pytest.mark.parametrize(
    ("bad", "found"), [((), 12345678), ((12345678,), 9999999), ((12345678, 9999999), None)]
)
def test_the_first_valid_checkpoint_is_taken_and_each_one_before_it_is_named_with_its_reason(
    tmp_path: Path, bad: tuple[int, ...], found: int | None
) -> None:
    empty, foreign, run = (tmp_path / name for name in ("empty", "foreign", "run"))
    for directory in (empty, foreign, run):
        directory.mkdir()
    for number in (9999999, 12345678):
        (run / f"checkpoint-{number:07d}.safetensors").touch()
        (foreign / f"checkpoint-{number:07d}.safetensors").touch()
    file, skipped = newest(
        [empty, foreign, run],
        lambda path: "of another preset" if path == foreign else "",
        lambda path: "damaged" if any(str(number) in path.name for number in bad) else "",
    )
    assert file == (None if found is None else run / f"checkpoint-{found:07d}.safetensors")
    assert skipped == [
        f"skipped {empty}: it has no checkpoint",
        f"skipped {foreign}: of another preset",
        *(f"skipped {run / f'checkpoint-{number}.safetensors'}: damaged" for number in bad),
    ]

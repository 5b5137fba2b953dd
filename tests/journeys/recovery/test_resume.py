"""A run resumed from a checkpoint computes the same numbers as an unbroken run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.support import configure, events, run_directory, run_up, train


@pytest.mark.parametrize(("preset", "workers"), [("single", 1), ("sync", 2)])
def test_a_resumed_synchronous_run_equals_an_unbroken_one_to_the_last_bit(
    tmp_path: Path, preset: str, workers: int
) -> None:
    whole = train(configure(tmp_path / "whole", preset, workers=workers, iterations=8))
    train(configure(tmp_path / "half", preset, workers=workers, iterations=5))
    cluster = configure(tmp_path / "rest", preset, workers=workers, iterations=8)
    cluster.write_text(
        cluster.read_text().replace(
            "[train]\n", ('[train]\nresume = "../half/checkpoint-0000005.safetensors"\n'), 1
        )
    )
    rest = train(cluster)
    assert len(rest.losses()) == 3
    assert rest.losses() == whole.losses()[5:]
    for name, expected in whole.arrays.items():
        assert rest.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.slow
def test_checkpoints_are_written_at_the_solvers_interval_and_tests_at_their_interval(
    tmp_path: Path,
) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=6, test=True)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 2 test_interval: 3"))
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert [entry["iteration"] for entry in events(directory, "checkpoint")] == [2, 4, 6]
    assert [entry["iteration"] for entry in events(directory, "test")] == [0, 3, 6]

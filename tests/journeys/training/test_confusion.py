"""The confusion matrix of a test, from the workers' counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.data.sources import digits
from roles.learning.confusion import MOST_CLASSES, Confusion
from roles.messages import TEST, PassDone
from roles.registry import PRESETS
from runtime import MessageError
from tests.helpers.support import configure, train

IMAGES = 359  # of the digits for tests


def matrices_of(directory: Path, preset: str, workers: int, more: str = "") -> list[dict[str, Any]]:
    """The matrices and tests of a short run."""
    cluster = configure(directory, preset, workers=workers, iterations=6, batch=16, test=True)
    cluster.write_text(cluster.read_text() + more)
    solver = directory / "solver.prototxt"
    solver.write_text(solver.read_text() + "test_interval: 3\n")
    journal = train(cluster, checkpoint=False).journal
    tests, found = journal.of("test"), journal.of("confusion")
    assert [one["iteration"] for one in tests] == [one["iteration"] for one in found]
    assert len(found) >= 2
    for scores, matrix in zip(tests, found, strict=True):
        assert np.trace(matrix["counts"]) / IMAGES == pytest.approx(scores["accuracy"], abs=1e-6)
    return found


@pytest.mark.parametrize("preset", PRESETS.names())
def test_every_preset_counts_each_image_of_a_test_once(tmp_path: Path, preset: str) -> None:
    expected = Counter(digits.read(base_dir=tmp_path, split="test")[1].tolist())
    for matrix in matrices_of(tmp_path, preset, 2):
        totals = [sum(row) for row in matrix["counts"]]
        assert totals == [expected[digit] for digit in range(10)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("preset", ["sync", "replicas"])
def test_a_reproducible_run_has_the_same_matrices_with_any_number_of_workers(
    tmp_path: Path, preset: str
) -> None:
    more = "reproducible = true\n"
    alone = matrices_of(tmp_path / "1", preset, 1, more)
    assert matrices_of(tmp_path / "4", preset, 4, more) == alone


def done(*counts: int) -> PassDone:
    return PassDone(members=1, phase=TEST, number=0, rows=2, scores={}, counts=counts)


def test_counts_of_all_passes_add_up_and_the_next_test_starts_afresh() -> None:
    confusion = Confusion()
    for each in (done(2, 0, 3, 1, 1), done(2, 1, 2, 3, 4), done()):
        confusion.add(TEST, confusion.read(each))
    assert confusion.take(TEST) == [[3, 3], [0, 4]]
    assert confusion.take(TEST) is None


@pytest.mark.parametrize(
    "counts",
    [
        (2, 0),
        (2, 4, 1),
        (2, -1, 1),
        (2, 0, 0),
        (0,),
        (-1, 0, 1),
        (MOST_CLASSES + 1, 0, 1),
        (3, 0, 1),
        (2, 0, 1 << 60),
    ],
)
def test_counts_that_are_no_matrix_are_refused_and_change_nothing(counts: tuple[int, ...]) -> None:
    confusion = Confusion()
    confusion.add(TEST, confusion.read(done(2, 0, 1)))
    with pytest.raises(MessageError, match="its counts are no matrix"):
        confusion.read(done(*counts))
    assert confusion.take(TEST) == [[1, 0], [0, 0]]

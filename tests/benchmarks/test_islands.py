"""The benchmark of islands: the time of each machine, and trials that are made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.islands import learning
from benchmarks.islands.learning import ALONE, SECONDS, WAYS, kept_trial
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import Kept

OF = {way.name: way for way in WAYS}


@pytest.fixture
def digits() -> Iterator[Data]:
    """The digits that ship, and a folder that is removed afterwards."""
    data = Data(None, None)
    yield data
    data._folder.cleanup()


def test_the_fastest_machine_alone_takes_its_time_for_each_batch_and_sends_nothing(
    digits: Data,
) -> None:
    errors, seconds, megabytes = kept_trial(OF[ALONE], digits, 12, 1, Kept())
    assert seconds == pytest.approx(12 * SECONDS)
    assert megabytes == 0
    assert 0 <= errors <= 100


def test_islands_are_sooner_than_the_fastest_of_them_and_a_kept_trial_is_not_made_again(
    tmp_path: Path, digits: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.jsonl"
    first = kept_trial(OF["islands, int4"], digits, 60, 1, Kept(file))
    assert first[1] < 60 * SECONDS
    assert first[2] > 0
    monkeypatch.setattr(learning, "trial", lambda *_: pytest.fail("made again"))
    assert kept_trial(OF["islands, int4"], digits, 60, 1, Kept(file)) == list(first)

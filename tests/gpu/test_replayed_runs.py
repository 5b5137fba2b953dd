"""Runs of several workers whose passes are replayed: the losses, tests and models are those of plain
runs, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUNS = """
import sys
from pathlib import Path
from tests.gpu import replayed_runs
folder, preset, how, expected = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
do = getattr(replayed_runs, how)
plain, replayed = (
    replayed_runs.outcome(do(folder, preset, step)) for step in ("plain", "replay")
)
assert len(plain["losses"]) == 60 and len(plain["tests"]) > 1
assert replayed == plain, [name for name in plain if plain[name] != replayed[name]]
assert replayed_runs.replays[0] == expected, replayed_runs.replays
"""
# Two passes of each run are plain, one is recorded, and one is tried by a replay. Of the others all
# parts are replayed: of two replicas a part forward and one bucket, of two conv workers four stages
# each way, of the FC server two parts.
CASES = {"replicas": ("run", (60 - 3) * 4), "sync": ("resumed", 2 * (30 - 3) * 18)}


@pytest.mark.parametrize("preset", CASES)
def test_replayed_runs_have_the_bits_of_plain_ones_with_tests_between_and_after_a_resume(
    preset: str, stand_in: Path, tmp_path: Path
) -> None:
    done = script(RUNS, on_fake_cuda(stand_in, seed=3), tmp_path, preset, *CASES[preset])
    assert done.returncode == 0, done.stderr

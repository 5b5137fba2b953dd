"""Runs of several workers whose passes are replayed, call by call or as graphs: the losses, tests
and models are those of plain runs, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import on_fake_cuda, script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUNS = """
import sys
from functools import partial
from pathlib import Path
from tests.gpu import replayed_runs
folder, preset, how, expected = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
do = partial(getattr(replayed_runs, how), folder, preset)
plain, none = replayed_runs.counted(partial(do, "plain"))
assert len(plain["losses"]) >= 60 and len(plain["tests"]) > 1
assert not any(none.values())
for step in ("replay", "graph"):
    found, counts = replayed_runs.counted(partial(do, step))
    assert found == plain, (step, [name for name in plain if plain[name] != found[name]])
    if expected:
        assert counts["replays"] == expected, (step, counts)
    assert counts["replays"] > 50 and counts["graphs"] == (step == "graph") * counts["replays"], (step, counts)
"""
# Two passes of each run are plain, one is recorded, and one is tried by a replay. Of the others all
# parts are replayed: of two replicas a part forward and one bucket, of two conv workers four stages
# each way, of the FC server two parts. The passes of groups depend on their changes.
CASES = {
    "replicas": ("run", (60 - 3) * 4),
    "sync": ("resumed", 2 * (30 - 3) * 18),
    "omnivore": ("regrouped", 0),
}
# the models of these presets depend on the order in which messages arrive
ORDERED = ("async", "mxnet-async", "distbelief", "omnivore", "adam", "singa", "islands")


@pytest.mark.parametrize("preset", CASES)
def test_replayed_runs_have_the_bits_of_plain_ones_with_tests_and_after_a_resume_or_a_regroup(
    preset: str, stand_in: Path, tmp_path: Path
) -> None:
    done = script(RUNS, on_fake_cuda(stand_in, seed=3), tmp_path, preset, *CASES[preset])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("preset", ORDERED)
def test_replayed_runs_of_two_groups_have_the_bits_of_plain_ones(
    preset: str, stand_in: Path, tmp_path: Path
) -> None:
    done = script(RUNS, on_fake_cuda(stand_in, seed=3), tmp_path, preset, "grouped", 0)
    assert done.returncode == 0, done.stderr

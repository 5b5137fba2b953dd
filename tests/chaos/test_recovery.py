"""Runs with `recovery.restarts` that lose a process: they end with the same numbers as an
undisturbed run.

CONVOY_KILLS sets how often each case runs, at moments that its seed draws (1 by default; the
release figure is 20).
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from nets.files import checkpoint
from tests.chaos.recovering import (
    ITERATIONS,
    PRESETS,
    SAVED_EVERY,
    Starts,
    assert_same_bits,
    cluster_of,
    last_checkpoint,
)
from tests.helpers.support import Simulated, parent_of, run_up, train

KILLS = int(os.environ.get("CONVOY_KILLS", "1"))
BACK_WITHIN = 10.0  # seconds from a death to the next iteration


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


@pytest.fixture(scope="module", params=PRESETS)
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Simulated]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        preset = str(request.param)
        return preset, train(cluster_of(tmp_path_factory.mktemp("undisturbed"), preset, 0))


@pytest.mark.few("[sync")
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_run_that_loses_any_process_at_any_moment_ends_with_the_bits_of_an_undisturbed_one(
    tmp_path: Path, undisturbed: tuple[str, Simulated], seed: int, survivor: Starts
) -> None:
    preset, expected = undisturbed
    generator = random.Random(f"{preset} {seed}")
    run = survivor(cluster_of(tmp_path, preset, 3))
    run.until(rf"progress +iteration {generator.randrange(1, ITERATIONS - 2)}/")
    victim = run.kill(generator)
    died = time.monotonic()
    run.until("restart ")
    run.until("progress ")
    assert time.monotonic() - died <= BACK_WITHIN, victim
    code, said = run.end()
    assert (code, "Traceback" in said) == (0, False), said
    assert re.match(rf"process {victim} .* killed by SIGKILL", said), said
    assert_same_bits(last_checkpoint(run.runs), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_process_that_dies_while_the_run_restarts_costs_another_restart(
    tmp_path: Path, seed: int, survivor: Starts
) -> None:
    generator = random.Random(seed)
    expected = train(cluster_of(tmp_path / "undisturbed", "sync", 0))
    run = survivor(cluster_of(tmp_path / "killed", "sync", 3))
    run.until(rf"progress +iteration {generator.randrange(7, 15)}/")
    run.kill(generator)
    run.until("restart ")
    run.until("metrics ")
    run.reported()
    run.kill(generator)
    assert "2 of 3" in run.until("restart ")
    assert run.end()[0] == 0
    assert_same_bits(last_checkpoint(run.runs), expected)


@pytest.mark.slow
def test_all_runs_of_an_up_are_forked_from_one_process_and_from_a_new_one_if_it_was_killed(
    tmp_path: Path, survivor: Starts
) -> None:
    run = survivor(cluster_of(tmp_path, "sync", 3, iterations=1_000_000))

    def born_in() -> int:
        run.until("progress ")
        return parent_of(run.pid("coordinator"))

    first = born_in()
    run.kill(random.Random(1))
    run.until("restart ")
    assert born_in() == first
    os.kill(first, signal.SIGKILL)
    told = run.named(".*the process that role processes are forked from")[1]
    # the system may report the signal a moment after the link closes
    how = r"( \(killed by SIGKILL.*\))?"
    assert re.search(rf"\(pid {first}\) has ended{how}: another takes its place$", told.rstrip())
    assert born_in() != first
    run.process.terminate()
    assert run.end()[0] == 143


@pytest.mark.slow
def test_a_run_that_dies_again_and_again_gives_up_with_a_checkpoint_that_loads(
    tmp_path: Path, survivor: Starts
) -> None:
    run = survivor(cluster_of(tmp_path, "sync", 1))
    generator = random.Random(0)
    for _ in range(2):  # the second checkpoint waits for the first, so one is complete
        run.until(rf"progress +iteration {2 * SAVED_EVERY + 2}/")
        run.kill(generator)
    code, said = run.end()
    assert code == 4
    assert "is not restarted: it was restarted 1 times within 600 s (recovery.restarts)" in said
    newest = max(run.runs.rglob("checkpoint-*.safetensors"))
    assert checkpoint.load(newest)


@pytest.mark.slow
def test_an_interrupt_between_two_runs_ends_them(tmp_path: Path, survivor: Starts) -> None:
    """The second run cannot begin: its net files are deleted."""
    cluster = cluster_of(tmp_path, "sync", 9)
    run = survivor(cluster)
    run.until("progress +iteration 7/")
    run.kill(random.Random(0))
    run.until("restart ")
    os.kill(run.process.pid, signal.SIGINT)
    code, _ = run.end()
    assert code in (4, 130)
    assert not list(run.runs.rglob(f"checkpoint-{ITERATIONS:07d}.safetensors"))


def test_restarts_are_refused_for_a_program_that_does_not_say_where_a_run_goes_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "talking.py").write_text(
        'ROLES = {}\n\ndef plan(config, options):\n    raise AssertionError("not asked")\n'
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "talking"\n[recovery]\nrestarts = 2\n')
    done = run_up(cluster)
    assert done.returncode == 2
    text = "cluster.toml:3: recovery.restarts: program 'talking' cannot resume a run"
    assert text in done.stderr

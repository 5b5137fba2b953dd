"""Islands that all take part in each outer step (`quorum = "all"`), with exact and with coarse gains:
a run that dies and goes on ends with the bits of an undisturbed one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.recovering import ITERATIONS, Starts, assert_same_bits, cluster_of, last_checkpoint
from tests.helpers.support import Simulated, run_up, train

FORMS = ("float32", "int4")


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


def cluster_with(folder: Path, form: str, restarts: int) -> Path:
    cluster = cluster_of(folder, "islands", restarts)
    cluster.write_text(f'{cluster.read_text()}[train.gradients]\nformat = "{form}"\n')
    return cluster


@pytest.fixture(scope="module", params=FORMS)
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Simulated]:
    """A format, and a run on the virtual clock."""
    form = str(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return form, train(cluster_with(tmp_path_factory.mktemp("undisturbed"), form, 0))


@pytest.mark.few("[int4-outer-13]")
@pytest.mark.parametrize("iteration", [7, 13])
@pytest.mark.parametrize("victim", ["island-1", "outer"])
def test_islands_that_lose_a_process_are_restarted_and_end_with_the_bits_of_an_undisturbed_run(
    tmp_path: Path,
    undisturbed: tuple[str, Simulated],
    victim: str,
    iteration: int,
    survivor: Starts,
) -> None:
    form, expected = undisturbed
    run = survivor(cluster_with(tmp_path, form, 3))
    run.until(rf"progress +iteration {iteration}/")
    os.kill(run.pid(victim), signal.SIGKILL)
    run.until("restart ")
    code, said = run.end()
    assert (code, "Traceback" in said) == (0, False), said
    assert_same_bits(last_checkpoint(run.runs), expected)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["island-2", "outer"])
def test_a_dead_run_of_islands_that_is_resumed_by_hand_ends_with_the_bits_of_an_undisturbed_run(
    tmp_path: Path, undisturbed: tuple[str, Simulated], victim: str, survivor: Starts
) -> None:
    form, expected = undisturbed
    cluster = cluster_with(tmp_path, form, 0)
    run = survivor(cluster)
    run.until("progress +iteration 11/")
    os.kill(run.pid(victim), signal.SIGKILL)
    assert run.end()[0] == 4
    assert not list(run.runs.rglob(f"checkpoint-{ITERATIONS:07d}.safetensors"))
    again = run_up(cluster, "--resume")
    assert again.returncode == 0, again.stderr
    assert_same_bits(last_checkpoint(run.runs), expected)

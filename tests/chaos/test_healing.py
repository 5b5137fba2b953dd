"""A run of replicas that loses a replica resumes from another replica's memory: no checkpoint is
read, and no iteration is repeated.

CONVOY_KILLS sets how often each case runs, at moments that its seed draws (1 by default).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from benchmarks.helpers.survivor import Survivor, events
from roles.messages import Done, Regroup
from runtime import attach
from tests.chaos.recovering import ITERATIONS, Starts, assert_same_bits, cluster_of, last_checkpoint
from tests.helpers.support import Simulated, configure, run_up, train

KILLS = int(os.environ.get("CONVOY_KILLS", "1"))
ALIKE = ("replicas", "firecaffe", "host-accumulate")


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


@pytest.fixture(scope="module", params=ALIKE)
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Simulated]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        preset = str(request.param)
        return preset, train(cluster_of(tmp_path_factory.mktemp("undisturbed"), preset, 0))


def replicas(run: Survivor) -> list[str]:
    """The processes that hold the model."""
    return sorted(name for name in run.pids() if name.startswith("replica"))


def reached(directory: Path) -> int:
    """The last finished iteration in the journal of a run."""
    return max((event["iteration"] for event in events(directory, "progress")), default=0)


@pytest.mark.few("[replicas")
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_run_that_loses_a_replica_resumes_from_anothers_memory_and_repeats_no_iteration(
    tmp_path: Path, undisturbed: tuple[str, Simulated], seed: int, survivor: Starts
) -> None:
    preset, expected = undisturbed
    generator = random.Random(f"healing {preset} {seed}")
    run = survivor(cluster_of(tmp_path, preset, 3))
    run.until(rf"progress +iteration {generator.randrange(1, ITERATIONS - 2)}/")
    before = run.newest
    victim = generator.choice(replicas(run))
    os.kill(run.pid(victim), signal.SIGKILL)
    run.until("resumes +the state that replica-")
    run.until("healed ")
    assert run.end()[0] == 0
    assert_same_bits(last_checkpoint(run.runs), expected)
    (healed,), (resumed,) = events(run.newest, "healed"), events(run.newest, "resumed")
    assert healed["by"] == resumed["memory"] != victim
    assert healed["seconds"] > 0 and healed["at"] == f"iteration {resumed['iteration']}"
    assert resumed["iteration"] >= reached(before), "a finished iteration was repeated"
    saved = [event["iteration"] for event in events(run.newest, "checkpoint")]
    assert saved[0] == resumed["iteration"], (
        "the resumed run did not save the model from memory first"
    )
    assert not [
        link
        for link in Path(f"/proc/{os.getpid()}/fd").iterdir()
        if "convoy-checkpoint" in str(link)
    ]


def killed_and_healed(run: Survivor, victim: str) -> None:
    """Kill a replica, and wait until the next run has saved a checkpoint. By then the memory that
    it resumed from is closed.
    """
    run.until("progress ")
    os.kill(run.pids()[victim], signal.SIGKILL)
    run.until("healed ")
    run.until("checkpoint ")


# two deaths, a change and a start: 10 s; the quick case is in
# tests/runtime/recovery/test_next_run.py
@pytest.mark.slow
def test_a_run_healed_twice_can_be_scaled_and_resumed(tmp_path: Path, survivor: Starts) -> None:
    more = "[recovery]\nrestarts = 5\n"
    cluster = configure(tmp_path, "replicas", workers=2, iterations=10**6, paced=True, more=more)
    run = survivor(cluster)
    killed_and_healed(run, "replica-1")
    killed_and_healed(run, "replica-0")

    async def scale() -> None:
        async with attach(run.newest) as client:
            await client.scale(workers=3)

    asyncio.run(scale())
    run.until("scaled +workers 3 ")
    assert "/checkpoint-" in run.until("resumes ")
    run.until("progress ")
    for directory in run.directories:
        assert "/proc/" not in (directory / "config.toml").read_text()
    run.process.terminate()
    assert run.end()[0] == 143
    again = run_up(
        cluster, "--resume", "--set", "train.max_iter=1", "--set", "checkpoint.seconds=0"
    )
    assert "/proc/" not in again.stdout + again.stderr


@pytest.mark.slow  # two deaths and a start: 10 s
def test_a_run_whose_last_holder_dies_while_it_is_asked_resumes_from_the_checkpoint(
    tmp_path: Path, survivor: Starts
) -> None:
    """The last process that holds the model is stopped, so that it cannot have answered when it is
    killed.
    """
    run = survivor(cluster_of(tmp_path / "killed", "replicas", 3))
    run.until(r"checkpoint ")
    run.until(r"progress ")
    pids = run.pids()
    before = run.newest
    os.kill(pids["replica-0"], signal.SIGSTOP)
    os.kill(pids["replica-1"], signal.SIGKILL)
    run.named("process replica-1 .* killed by SIGKILL")
    os.kill(pids["replica-0"], signal.SIGKILL)
    assert "not from memory: none of replica-0, replica-1 is left" in run.until("restart ")
    assert f"{before.name}/checkpoint-" in run.until("resumes ")
    assert run.end()[0] == 0
    assert_same_bits(
        last_checkpoint(run.runs), train(cluster_of(tmp_path / "undisturbed", "replicas", 0))
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(KILLS))
def test_two_of_four_processes_that_hold_the_model_may_die_at_once(
    tmp_path: Path, seed: int, survivor: Starts
) -> None:
    run = survivor(cluster_of(tmp_path / "killed", "firecaffe", 3))
    generator = random.Random(seed)
    run.until(rf"progress +iteration {generator.randrange(1, ITERATIONS - 2)}/")
    for victim in generator.sample(replicas(run), 2):
        os.kill(run.pid(victim), signal.SIGKILL)
    run.until("resumes +the state that replica-")
    assert run.end()[0] == 0
    assert_same_bits(
        last_checkpoint(run.runs), train(cluster_of(tmp_path / "undisturbed", "firecaffe", 0))
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("preset", ["sync", "replicas"])
def test_a_learning_rate_set_during_a_run_counts_in_the_run_after_a_restart(
    tmp_path: Path, preset: str, survivor: Starts
) -> None:
    """The new learning rate comes from a message, so no seed determines it. The expected numbers
    come from a run that is planned with that rate and resumes from the checkpoint.
    """
    cluster = cluster_of(tmp_path / "killed", preset, 3, every=1, iterations=60)
    run = survivor(cluster)
    run.until(r"progress +iteration 3/")

    async def ask() -> None:
        async with attach(run.newest) as client:
            await client.ask("coordinator", Regroup(base_lr=0.004), Done)

    asyncio.run(ask())
    run.until("regrouped ")
    run.until("checkpoint ")
    run.until("checkpoint ")
    os.kill(run.pids()[random.Random(preset).choice(sorted(run.pids()))], signal.SIGKILL)
    run.until("restart ")
    run.until("regrouped .*base_lr 0.004")
    assert run.end()[0] == 0
    (resumed,) = events(run.newest, "resumed")
    (regrouped,) = events(run.newest, "regrouped")
    assert regrouped["iteration"] == resumed["iteration"]
    first = next(run.runs.rglob(f"checkpoint-{resumed['iteration']:07d}.safetensors"))
    again = cluster_of(tmp_path / "again", preset, 0, iterations=60)
    more = f'[train]\nresume = "{first}"\nbase_lr = 0.004\n'
    again.write_text(again.read_text().replace("[train]\n", more, 1))
    assert_same_bits(last_checkpoint(run.runs, 60), train(again))

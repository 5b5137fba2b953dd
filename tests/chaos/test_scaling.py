"""Live runs scaled to another number of workers: no sample is lost or used twice, and presets that
repeat keep their bits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpers.survivor import Survivor, events
from nets.files import checkpoint
from roles.tuning.momentum import compensated
from runtime import ConvoyError, attach
from runtime.cli.main import main
from tests.chaos.recovering import (
    PRESETS,
    REPEATS_BY_ITSELF,
    Starts,
    assert_same_bits,
    cluster_of,
    last_checkpoint,
)
from tests.helpers.support import Simulated, configure, get, train

ITERATIONS = 40  # two seconds, enough for a change in the middle
OTHER = {
    name: 4 if workers == 2 else 2
    for name, (workers, _) in PRESETS.items()
    if name not in REPEATS_BY_ITSELF
}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


def two_workers(folder: Path, survivor: Starts) -> Survivor:
    """A run of two workers that has begun to train."""
    run = survivor(configure(folder, "sync", workers=2, iterations=1_000_000, paced=True))
    run.until("progress ")
    return run


def scaled(run: Survivor, **wish: Any) -> str:
    """Ask the present run to scale; return the name of the directory of the next run."""

    async def ask() -> str:
        async with attach(run.newest) as client:
            return (await client.scale(**wish)).run

    return asyncio.run(ask())


def refused(run: Survivor, **wish: Any) -> str:
    """The reason why the present run refuses to scale."""
    with pytest.raises(ConvoyError) as error:
        scaled(run, **wish)
    return str(error.value)


def restarts(run: Survivor) -> float:
    """The number of restarts in the metrics of the next run that begins."""
    page = get(run.until("metrics ").split()[1].replace("/sd", "/metrics"))
    (line,) = (line for line in page.splitlines() if line.startswith("convoy_run_restarts{"))
    return float(line.split()[1])


@pytest.fixture(scope="module", params=OTHER)
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Simulated]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        preset = str(request.param)
        folder = tmp_path_factory.mktemp("undisturbed")
        return preset, train(cluster_of(folder, preset, 0, iterations=ITERATIONS, every=0))


@pytest.mark.few("[sync")
def test_a_run_that_is_scaled_ends_with_the_bits_of_one_that_was_not(
    tmp_path: Path, undisturbed: tuple[str, Simulated], survivor: Starts
) -> None:
    """Any number of workers computes the same bits if no sample is lost or used twice."""
    preset, expected = undisturbed
    run = survivor(cluster_of(tmp_path, preset, 0, iterations=ITERATIONS, every=0))
    before = run.newest if run.until(r"progress +iteration \d+/") else None
    assert before is not None
    name = scaled(run, workers=OTHER[preset])
    run.until(rf"scaled +workers {OTHER[preset]}  at iteration \d+  after {before.name}")
    run.until("progress ")
    run.until("finished ")
    code, said = run.end()
    assert (code, "Traceback" in said) == (0, False), said
    after = before.parent / name
    assert_same_bits(last_checkpoint(run.runs, ITERATIONS), expected)
    (left,), (came,) = events(before, "continued"), events(after, "scaled")
    assert (left["in"], came["after"]) == (after.name, before.name)
    assert f"workers = {OTHER[preset]}" in (after / "config.toml").read_text()


@pytest.mark.slow
def test_samples_of_asynchronous_groups_are_each_used_once_over_several_changes(
    tmp_path: Path, survivor: Starts
) -> None:
    """An iteration trains on the images that its number gives. So each checkpoint must count 16
    images, one batch, for each of its iterations. Momentum follows the number of groups.
    """
    cluster = configure(
        tmp_path, "omnivore", workers=2, groups=2, iterations=1_000_000, paced=True, pace=0.02
    )
    run = survivor(cluster)
    chance = random.Random(1)
    at = 0
    for workers, groups in ((4, 2), (3, 3), (1, 1), (2, 1)):
        run.until(rf"progress +iteration {at + chance.randrange(5, 25)}/")
        before = run.newest
        scaled(run, workers=workers, groups=groups)
        (saved,) = sorted(before.glob("checkpoint-*.safetensors"))[-1:]
        facts = checkpoint.verify(saved)
        assert int(facts["images"]) == 16 * int(facts["iteration"])
        at = int(facts["iteration"])
        run.until(r"scaled ")
        first = run.until(r"progress ")
        assert first.split()[2].startswith(f"{at + 1}/"), (
            "the run did not go on at the iteration after the saved one"
        )
        lowered = [event["momentum"] for event in events(run.newest, "compensated")]
        expected = pytest.approx(compensated(0.9, groups - 1), abs=1e-5)
        assert lowered == ([expected] if groups > 1 else [])
    run.process.terminate()
    assert run.end()[0] == 143


@pytest.mark.slow  # ten commands: 10 s
def test_an_impossible_scale_request_is_refused_with_a_reason_and_the_run_goes_on(
    tmp_path: Path,
    survivor: Starts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = survivor(configure(tmp_path, "sync", workers=2, iterations=1_000_000, paced=True))
    run.until("progress ")
    directory = run.newest
    assert refused(run, workers=17).endswith(
        "found 17: a group of 17 workers cannot share a batch of 16 images"
    )
    assert refused(run, groups=2) == "found 2 groups, but preset 'sync' makes its groups itself"
    assert refused(run, without=["elsewhere"]).startswith(
        "no machine of this run is called 'elsewhere'"
    )
    assert refused(run, without=["local"]) == "it is the only machine"
    monkeypatch.chdir(tmp_path)
    for words, told in (
        (["--workers", "0"], "--workers: found 0, expected at least 1"),
        ([], "found no change to make, expected --workers, --groups, --without or --with"),
        (["--workers", "17"], "cannot share a batch of 16 images"),
        (["--with", "elsewhere"], "no machine of this run is called 'elsewhere'"),
        (["--with", "local", "--without", "local"], "found 'local' with --without and --with"),
    ):
        assert main(["scale", *words]) == 2
        assert told in capsys.readouterr().err
    assert main(["scale", "--with", "local"]) == 0
    assert "is already with machine 'local'" in capsys.readouterr().out
    assert run.newest == directory
    run.until("progress ")
    monkeypatch.setattr("runtime.cli.scale.PATIENT_SECONDS", 0.0)
    assert main(["scale", "--workers", "3"]) == 0
    told = capsys.readouterr()
    assert "waits; the output of `up` shows what it waits for" in told.out
    assert "continues at iteration" in told.out
    assert main(["ps"]) == 0
    assert directory.name not in capsys.readouterr().out.split()
    assert main(["status", "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    assert {actor for process in now["processes"].values() for actor in process["actors"]} >= {
        "conv-0-2"
    }
    run.until("scaled ")
    url = run.until("metrics ").split()[1]
    assert "conv-0-2" in get(url)
    run.until(r"report +http://\S+ shows the run")
    assert main(["status", directory.name]) == 0
    assert f"continues in {now['name']}" in capsys.readouterr().out
    run.until("progress ")  # a run without a finished iteration leaves no checkpoint to resume from
    run.process.terminate()
    run.until(rf"go on +python -m runtime up cluster.toml --resume runs/{now['name']}$")
    assert run.end()[0] == 143
    assert main(["status", "--json", directory.name]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "continued"
    assert main(["report", now["name"], "-o", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert f"<dt>continues</dt><dd>{directory.name}</dd>" in page
    assert "<td>scaled</td>" in page.replace("\n", "")


@pytest.mark.slow
def test_a_run_is_scaled_back_to_the_number_in_cluster_toml(
    tmp_path: Path, survivor: Starts
) -> None:
    run = two_workers(tmp_path, survivor)
    for workers in (3, 2):
        scaled(run, workers=workers)
        run.until(rf"scaled +workers {workers} ")
        run.until("progress ")
        assert f"\nworkers = {workers}\n" in (run.newest / "config.toml").read_text()
        assert sum(name.startswith("conv-0-") for name in run.pids()) == workers


@pytest.mark.slow
def test_a_preset_of_one_worker_refuses_more_workers(tmp_path: Path, survivor: Starts) -> None:
    run = survivor(configure(tmp_path, "single", iterations=1_000_000, paced=True))
    run.until("progress ")
    assert refused(run, workers=2) == "found 2 workers, but preset 'single' has one worker"
    run.until("progress ")


@pytest.mark.slow
def test_a_second_change_while_one_is_under_way_is_refused(
    tmp_path: Path, survivor: Starts
) -> None:
    run = two_workers(tmp_path, survivor)

    async def both() -> list[Any]:
        async with attach(run.newest) as one, attach(run.newest) as two:
            return await asyncio.gather(
                one.scale(workers=3), two.scale(workers=4), return_exceptions=True
            )

    done, other = sorted(asyncio.run(both()), key=lambda found: isinstance(found, Exception))
    assert done.run
    assert "the run is being scaled already" in str(other)
    run.until("scaled +workers [34] ")
    run.until("progress ")


@pytest.mark.slow
def test_a_client_that_leaves_while_it_is_scaled_ends_nothing(
    tmp_path: Path, survivor: Starts
) -> None:
    run = two_workers(tmp_path, survivor)

    async def asked_and_gone(patience: float) -> None:
        async with attach(run.newest) as client:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await client.scale(workers=3)

    asyncio.run(asked_and_gone(0.05))
    run.until("scaled +workers 3 ")
    run.until("progress ")


@pytest.mark.slow
def test_a_disk_that_takes_no_checkpoint_keeps_the_run_as_it_is(
    tmp_path: Path, survivor: Starts
) -> None:
    run = two_workers(tmp_path, survivor)
    at = run.newest
    # the name of every possible checkpoint is taken by a folder
    for number in range(3_000):
        (at / f"checkpoint-{number:07d}.safetensors").mkdir()
    assert "the checkpoint cannot be saved: checkpoint-" in refused(run, workers=3)
    run.until("progress ")
    assert run.newest == at


@pytest.mark.slow
def test_resume_and_restarts_know_the_new_number(tmp_path: Path, survivor: Starts) -> None:
    cluster = cluster_of(tmp_path, "sync", 3, iterations=1_000_000, every=0)
    run = survivor(cluster)
    run.until("progress ")
    scaled(run, workers=4)
    run.until("scaled ")
    assert restarts(run) == 0
    run.until("progress ")
    assert "conv-0-3" in run.pids()
    run.kill(random.Random(1))
    run.until("restart ")
    assert restarts(run) == 1
    run.until("progress ")
    assert "conv-0-3" in run.pids()
    run.process.terminate()
    assert run.end()[0] == 143
    resumed = Survivor(cluster, resume=True)
    try:
        assert "4 workers, where cluster.toml says 2" in resumed.until("scaled +as ")
        resumed.until("progress ")
        assert "conv-0-3" in resumed.pids()
    finally:
        resumed.stop()
    cluster.write_text(cluster.read_text().replace("workers = 2", "workers = 8"))
    resumed = Survivor(cluster, resume=True)
    try:
        resumed.until("progress ")
        assert "conv-0-7" in resumed.pids(), "the new value of cluster.toml was ignored"
    finally:
        resumed.stop()

"""With `recovery.restarts` a run that loses a process ends with the numbers that it would have had.

CONVOY_KILLS sets how often each case is done, at moments that its seed draws (1 by default; the release figure is 20).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nets.files import checkpoint
from tests.journeys.fc_shards import configured, lenet_with_dropout
from tests.support import Simulated, environment, events, run_up, runtime_command, train

KILLS = int(os.environ.get("CONVOY_KILLS", "1"))
ITERATIONS, SAVED_EVERY = 24, 5
BACK_WITHIN = 10.0  # seconds from a death to the next iteration
PRESETS = {
    "sync": (2, ""),
    "replicas": (2, ""),
    "firecaffe": (4, ""),
    "one-weird-trick": (2, 'scheme = "b"\n'),
    "parameter-server": (2, ""),
    "host-accumulate": (2, ""),
    "mxnet-sync": (2, "servers = 2\n"),
}


def cluster_of(folder: Path, preset: str, restarts: int, more: str = "") -> Path:
    """LeNet with dropout, whose numbers repeat to the last bit."""
    workers, strategy = PRESETS[preset]
    cluster = configured(
        folder, preset, workers=workers, batch=20, net=lenet_with_dropout(), iterations=ITERATIONS,
        strategy=f"{strategy}reproducible = true\n", more=f"[recovery]\nrestarts = {restarts}\n{more}",
    )  # fmt: skip
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", f"snapshot: {SAVED_EVERY}"))
    return cluster


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVOY_THREADS", "1")


class Survivor:
    """A run as its user sees it, and its present processes."""

    def __init__(self, cluster: Path) -> None:
        self.runs = cluster.parent / "runs"
        self.process = subprocess.Popen(
            runtime_command("up", cluster.name),
            cwd=cluster.parent,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said: Iterator[str] = iter(self.process.stdout)

    @property
    def directories(self) -> list[Path]:
        """Of its runs, in order."""
        return sorted(self.runs.iterdir(), key=lambda path: path.stat().st_mtime_ns)

    def pids(self) -> dict[str, int]:
        """Of the run under way."""
        newest = max(self.runs.iterdir(), key=lambda path: (len(path.name), path.name))
        return {event["process"]: event["pid"] for event in events(newest, "process")}

    def until(self, pattern: str) -> str:
        """The next line on stdout that begins so."""
        return next(line for line in self.said if re.match(pattern, line))

    def kill(self, generator: random.Random) -> str:
        """One of its processes, whichever comes."""
        pids = self.pids()
        victim = generator.choice(sorted(pids))
        os.kill(pids[victim], signal.SIGKILL)
        return victim

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


Starts = Callable[[Path], Survivor]


@pytest.fixture
def survivor() -> Iterator[Starts]:
    """Starts runs; whatever a test finds, none outlives it."""
    started: list[Survivor] = []

    def start(cluster: Path) -> Survivor:
        started.append(Survivor(cluster))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()  # its processes end with it
        run.process.communicate()


@pytest.fixture(scope="module", params=PRESETS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Simulated]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        preset = str(request.param)
        return preset, train(cluster_of(tmp_path_factory.mktemp("undisturbed"), preset, 0))


def last_checkpoint(runs: Path) -> Path:
    """The one that the last run has left at its end."""
    (path,) = runs.rglob(f"checkpoint-{ITERATIONS:07d}.safetensors")
    return path


def assert_same_bits(path: Path, expected: Simulated) -> None:
    arrays, _ = checkpoint.load(path)
    assert arrays.keys() == expected.arrays.keys()
    differ = [name for name, array in expected.arrays.items() if arrays[name].tobytes() != array.tobytes()]
    assert differ == []


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
def test_a_process_that_dies_while_the_run_begins_anew_costs_another_restart(
    tmp_path: Path, seed: int, survivor: Starts
) -> None:
    generator = random.Random(seed)
    expected = train(cluster_of(tmp_path / "undisturbed", "sync", 0))
    run = survivor(cluster_of(tmp_path / "killed", "sync", 3))
    run.until(rf"progress +iteration {generator.randrange(7, 15)}/")
    run.kill(generator)
    run.until("restart ")
    run.until("metrics ")
    deadline = time.monotonic() + 20
    while not run.pids() and time.monotonic() < deadline:
        os.sched_yield()
    run.kill(generator)
    assert "2 of 3" in run.until("restart ")
    assert run.end()[0] == 0
    assert_same_bits(last_checkpoint(run.runs), expected)


@pytest.mark.slow
def test_a_run_that_dies_again_and_again_gives_up_with_a_checkpoint_that_loads(
    tmp_path: Path, survivor: Starts
) -> None:
    run = survivor(cluster_of(tmp_path, "sync", 1))
    generator = random.Random(0)
    for _ in range(2):  # the second checkpoint waits for the first: one is whole
        run.until(rf"progress +iteration {2 * SAVED_EVERY + 2}/")
        run.kill(generator)
    code, said = run.end()
    assert code == 4
    assert "does not begin anew: it did 1 times within 600 s (recovery.restarts)" in said
    newest = max(run.runs.rglob("checkpoint-*.safetensors"))
    assert checkpoint.load(newest)


@pytest.mark.slow
def test_an_interrupt_between_two_runs_ends_them(tmp_path: Path, survivor: Starts) -> None:
    """The second cannot begin: its nets are gone."""
    cluster = cluster_of(tmp_path, "sync", 9)
    run = survivor(cluster)
    run.until("progress +iteration 7/")
    run.kill(random.Random(0))
    run.until("restart ")
    os.kill(run.process.pid, signal.SIGINT)
    code, _ = run.end()
    assert code in (4, 130)
    assert not list(run.runs.rglob(f"checkpoint-{ITERATIONS:07d}.safetensors"))


def test_a_program_that_does_not_say_where_it_goes_on_is_refused_restarts(tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(
        'ROLES = {}\n\ndef plan(config, options):\n    raise AssertionError("not asked")\n'
    )
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "talking"\n[recovery]\nrestarts = 2\n')
    done = run_up(cluster)
    assert done.returncode == 2
    text = "cluster.toml:3: recovery.restarts: program 'talking' does not say where a run goes on"
    assert text in done.stderr

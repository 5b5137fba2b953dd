"""The processes of islands die, and the run goes on without a restart."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpers.survivor import events as journalled
from tests.chaos.running import Running
from tests.helpers.support import environment, events, run_directory, runtime_command
from tests.journeys.training.test_islands import islands


def at_work(line: str) -> bool:
    return line.startswith("progress") and " 20/" in line


@contextmanager
def running(folder: Path, **options: Any) -> Iterator[Running]:
    """A run of three islands that goes on until it is ended."""
    cluster = islands(
        folder,
        workers=3,
        iterations=100_000,
        momentum=0.0,
        keys="period = 2\n",
        paced=True,
        **options,
    )
    run = Running(cluster, at_work)
    try:
        yield run
    finally:
        run.end()


def read_until(run: Running, word: str) -> list[str]:
    """The lines that the run shows up to one that begins with this word."""
    assert run.process.stdout is not None
    found = []
    for line in run.process.stdout:
        found.append(line)
        if line.startswith(word):
            return found
    raise AssertionError(f"the run ended without '{word}': {found[-5:]}")


def ended(run: Running) -> tuple[int, str]:
    """End the run well."""
    run.process.send_signal(signal.SIGINT)
    return run.finish(60)


def test_an_island_that_is_killed_joins_again_while_the_others_go_on(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        os.kill(run.pids["island-1"], signal.SIGKILL)
        assert any(line.startswith("progress") for line in read_until(run, "joined"))
        code, said = ended(run)
    assert code == 130, said
    directory = run_directory(run.cluster)
    assert len(list(directory.parent.iterdir())) == 1, "no other run has followed"
    (text,) = (event["text"] for event in events(directory, "warning"))
    assert "process island-1 on local" in text
    assert text.endswith("killed by SIGKILL; it is started again")
    assert [event["worker"] for event in events(directory, "joined")] == ["island-1"]
    assert events(directory, "finished")


@pytest.mark.slow
def test_an_island_that_is_stopped_is_left_aside_and_joins_again(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        os.kill(run.pids["island-2"], signal.SIGSTOP)
        assert any(line.startswith("progress") for line in read_until(run, "left"))
        read_until(run, "joined")
        code, said = ended(run)
    assert code == 130, said
    assert [event["worker"] for event in events(run_directory(run.cluster), "joined")] == [
        "island-2"
    ]


def test_an_island_that_gets_sigterm_leaves_and_its_samples_go_to_the_others(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as run:
        os.kill(run.pids["island-1"], signal.SIGTERM)
        read_until(run, "left")
        read_until(run, "progress")
        code, said = ended(run)
    assert code == 130, said
    directory = run_directory(run.cluster)
    (text,) = (event["text"] for event in events(directory, "warning"))
    assert text.endswith("was told to go by SIGTERM; the run goes on without it")
    assert not events(directory, "joined")


def test_the_run_ends_in_words_when_no_island_is_left(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        for name in ("island-0", "island-1"):
            os.kill(run.pids[name], signal.SIGTERM)
            read_until(run, "left")
        os.kill(run.pids["island-2"], signal.SIGTERM)
        code, said = run.finish(60)
        assert run.left() == []
    assert code == 4
    assert "process island-2" in said
    assert "was told to go by SIGTERM, and no process is left" in said
    assert "Traceback" not in said


MACHINES = "".join(f'[[machine]]\nname = "{name}"\n' for name in ("desk", "lap", "attic"))


def scale(run: Running, *words: str) -> str:
    """What `scale` says."""
    done = subprocess.run(
        runtime_command("scale", *words),
        cwd=run.cluster.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_machine_of_an_island_leaves_and_rejoins_without_touching_the_others(
    tmp_path: Path,
) -> None:
    with running(tmp_path, more=MACHINES) as run:
        said = scale(run, "--without", "lap")
        assert "goes on without machine 'lap'; the others went on meanwhile" in said
        read_until(run, "left")
        read_until(run, "progress")
        assert "goes on with machine 'lap'" in scale(run, "--with", "lap")
        read_until(run, "joined")
        code, said = ended(run)
    assert code == 130, said
    directory = run_directory(run.cluster)
    assert len(list(directory.parent.iterdir())) == 1, "no other run has followed"
    (back,) = (event["worker"] for event in events(directory, "joined"))
    lives = Counter(event["process"] for event in events(directory, "process"))
    assert lives.pop(back) == 2
    assert set(lives.values()) == {1}


@pytest.mark.slow
def test_machines_that_are_asked_to_leave_and_to_rejoin_at_once_do_each_once(
    tmp_path: Path,
) -> None:
    with running(tmp_path, more=MACHINES) as run, ThreadPoolExecutor(4) as people:
        lines = people.map(lambda name: scale(run, "--without", name), ("lap", "attic", "lap"))
        assert all("without machine" in line for line in lines)
        lines = people.map(lambda word: scale(run, word, "lap"), ("--with", "--with", "--with"))
        assert all("with machine 'lap'" in line for line in lines)
        read_until(run, "joined")
        assert "is already with machine 'lap'" in scale(run, "--with", "lap")
        code, said = ended(run)
    assert code == 130, said
    directory = run_directory(run.cluster)
    assert len(list(directory.parent.iterdir())) == 1, "no other run has followed"
    gone = Counter(event["process"] for event in events(directory, "warning"))
    assert sorted(gone.values()) == [1, 1], "each island has left once"
    assert len(events(directory, "joined")) == 1


@pytest.mark.slow
def test_the_outer_server_that_is_killed_again_before_it_has_begun_is_started_once_more(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as run:
        directory = run_directory(run.cluster)
        os.kill(run.pids["outer"], signal.SIGKILL)
        while (pid := lives_of(directory, "outer")[-1]) == run.pids["outer"]:
            assert run.process.poll() is None
        os.kill(pid, signal.SIGKILL)
        read_until(run, "anchored")
        read_until(run, "progress")
        code, said = ended(run)
    assert code == 130, said
    assert len(lives_of(directory, "outer")) == 3
    assert events(directory, "finished")


def lives_of(directory: Path, process: str) -> list[int]:
    """The pid of each life of a process that has greeted."""
    return [one["pid"] for one in journalled(directory, "process") if one["process"] == process]


def test_the_outer_server_that_is_killed_goes_on_from_the_model_that_an_island_holds(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as run:
        os.kill(run.pids["outer"], signal.SIGKILL)
        read_until(run, "anchored")
        read_until(run, "progress")
        code, said = ended(run)
    assert code == 130, said
    directory = run_directory(run.cluster)
    assert len(list(directory.parent.iterdir())) == 1, "no other run has followed"
    assert events(directory, "finished")

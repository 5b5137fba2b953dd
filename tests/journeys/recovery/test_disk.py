"""A disk that is missing, full or read-only: one line with the cause, the documented exit code, and
no process left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from nets.files.binary import sweep_temporaries
from nets.files.checkpoint import load
from roles.learning.resume import sweep
from runtime.errors import LaunchError
from runtime.report.journal import Journal
from runtime.report.rundir import RunDirectory
from tests.chaos.test_startup import TALKING
from tests.helpers.support import configure, environment, run_up, runtime_command

Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A function that mounts a small file system in memory: mount("size=64k")."""
    place = tmp_path / "small"
    place.mkdir()

    def mounted(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
        if (
            os.geteuid() != 0
            or subprocess.run(command, capture_output=True, check=False).returncode
        ):
            pytest.skip("needs root to mount a small file system")
        return place

    yield mounted
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def ending(directory: Path) -> Path:
    """The cluster.toml of a program that talks for a moment and ends."""
    (directory / "talking.py").write_text(TALKING.replace("while True:", "for _ in range(20):"))
    cluster = directory / "cluster.toml"
    cluster.write_text('program = "talking"\n')
    return cluster


def refused(done: subprocess.CompletedProcess[str], cause: str) -> None:
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert cause in done.stderr


@pytest.mark.parametrize("below", ["runs", "runs/mine"])
@pytest.mark.parametrize("command", ["up", "check"])
def test_a_file_in_the_place_of_the_run_directory_is_named(
    tmp_path: Path, command: str, below: str
) -> None:
    place = tmp_path / "runs"
    place.write_text("in the way")
    words = [command, str(ending(tmp_path)), "--set", f"run.directory={tmp_path / below}"]
    done = subprocess.run(
        runtime_command(*words), capture_output=True, text=True, check=False, env=environment()
    )
    refused(done, f"no run directory can be made there: found {place}, which is not a folder: ren")


def test_a_read_only_disk_is_reported_in_one_line(tmp_path: Path, mount: Mount) -> None:
    place = mount("ro")
    done = run_up(ending(tmp_path), "--set", f"run.directory={place}")
    refused(
        done, (f"run.directory {place}: no run directory can be made there: Read-only file system")
    )


@pytest.mark.few("[nr_inodes=4]")
@pytest.mark.parametrize(
    "room", [*(f"nr_inodes={n}" for n in range(2, 11)), *(f"size={n}k" for n in (4, 8, 12))]
)
def test_a_disk_that_fills_up_at_any_write_ends_the_start_in_words_or_the_run_well(
    tmp_path: Path, mount: Mount, room: str
) -> None:
    """The first files are the directory, events.jsonl, config.toml, versions.json, plan.json, logs/
    and its logs."""
    done = run_up(ending(tmp_path), "--set", f"run.directory={mount(room)}")
    assert "Traceback" not in done.stdout + done.stderr
    if done.returncode != 0:  # otherwise there was room for everything, perhaps except some events
        refused(done, "No space left on device")


def test_a_full_disk_costs_checkpoints_and_events_but_not_the_training(
    tmp_path: Path, mount: Mount
) -> None:
    cluster = configure(tmp_path, "single", iterations=12)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 4"))
    place = mount("size=5m")  # one checkpoint of LeNet has 3.4 MB
    done = run_up(cluster, "--set", f"run.directory={place}")
    assert done.returncode == 1, done.stderr
    assert "warning    coordinator: no checkpoint: checkpoint-0000008.safetensors: " in done.stdout
    assert "checkpoint-0000004.safetensors is the last one; training goes on" in done.stdout
    assert "the last checkpoint could not be saved: checkpoint-0000012.safetensors: " in done.stderr
    assert "No space left on device" in done.stderr
    assert "progress   iteration 12/12" in done.stdout
    (directory,) = place.iterdir()
    (kept,) = directory.glob("*.safetensors")
    assert load(kept)[1]["iteration"] == "4"
    assert list(directory.glob(".*.tmp")) == []


def failing(monkeypatch: pytest.MonkeyPatch, name: str, calls: set[int], code: int = 28) -> None:
    """Let the given calls of a function of `os` fail. The first call is 1."""
    real = getattr(os, name)
    count = 0

    def called(*given: object) -> object:
        nonlocal count
        count += 1
        if count in calls:
            raise OSError(code, os.strerror(code))
        return real(*given)

    monkeypatch.setattr(os, name, called)


@pytest.mark.parametrize("calls", [{1}, {3}, {2, 3, 4}, {10}, set(range(1, 11))])
def test_events_that_cannot_be_written_are_reported_once_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: set[int]
) -> None:
    told: list[str] = []
    journal = Journal(tmp_path / "events.jsonl", told.append)
    failing(monkeypatch, "pwrite", calls)
    for number in range(1, 11):
        journal.write({"t": float(number)}, "a", "said", {"number": number})
    journal.close()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["number"] for line in lines if line["event"] == "said"] == [
        n for n in range(1, 11) if n not in calls
    ]
    lasting = 10 in calls
    assert [line["events"] for line in lines if line["event"] == "missed"] == (
        [] if lasting else [len(calls)]
    )
    assert told[0].endswith(
        "No space left on device: events are not journalled until it can be written again"
    )
    assert [text.partition(": ")[2] for text in told[1:]] == (
        [f"the last {len(calls)} events of the run are missing"] if lasting else []
    )


def test_half_a_line_of_a_full_disk_is_taken_back(tmp_path: Path, mount: Mount) -> None:
    place = mount("size=8k")
    told = list[str]()
    journal = Journal(place / "events.jsonl", told.append)
    for number in range(1000):
        journal.write({"t": 0.0}, "a", "said", {"number": number})
    lines = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(len(lines)))
    assert journal.missed == 1000 - len(lines) > 0
    journal.close()
    assert len(told) == 2


def test_a_journal_that_fails_when_it_is_closed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    journal = Journal(tmp_path / "events.jsonl", told.append)
    file = journal._file
    close = os.close
    failing(monkeypatch, "close", {1}, 5)
    journal.close()
    close(file)
    assert told == [
        (
            f"{tmp_path / 'events.jsonl'}: Input/output error when it was closed: its last "
            "events may be missing"
        )
    ]


def test_a_file_of_the_run_that_cannot_be_written_is_a_launch_error(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "x")
    (run.path / "plan.json").mkdir()
    with pytest.raises(LaunchError, match=r"plan\.json: cannot be written: Is a directory"):
        run.write("plan.json", "{}")
    run.close()


def test_only_its_owner_may_look_into_a_run_directory(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=1)
    assert run_up(cluster).returncode == 0
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "logs").stat().st_mode & 0o777 == 0o700
    assert (directory / "events.jsonl").stat().st_mode & 0o777 == 0o600


WRITES = """
import sys, time
from pathlib import Path
from nets.files.binary import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(1000)
"""


def test_a_named_pipe_or_a_link_with_the_name_of_a_temporary_file_does_not_stop_the_sweep(
    tmp_path: Path,
) -> None:
    (tmp_path / "precious").write_text("precious")
    os.mkfifo(tmp_path / ".model.pipe.tmp")
    (tmp_path / ".model.link.tmp").symlink_to("precious")
    (tmp_path / ".model.left.tmp").write_text("half")
    sweep_temporaries(tmp_path, "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".model.link.tmp",
        ".model.pipe.tmp",
        "precious",
    ]


def test_files_of_killed_writers_are_swept_and_files_of_living_writers_are_not(
    tmp_path: Path,
) -> None:
    dead = tmp_path / "run-1"
    living = tmp_path / "run-2"
    writers = []
    for directory in (dead, living):
        directory.mkdir()
        target = str(directory / "checkpoint-0000001.safetensors")
        writers.append(
            subprocess.Popen(
                [runtime_command()[0], "-c", WRITES, target],
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert writers[-1].stdout is not None
        assert writers[-1].stdout.readline() == "writing\n"
    writers[0].send_signal(signal.SIGKILL)
    writers[0].wait()
    (dead / ".other.tmp").write_text("somebody else's")
    assert len(list(dead.glob(".check*.tmp"))) == len(list(living.glob(".check*.tmp"))) == 1
    sweep(tmp_path)
    assert [path.name for path in dead.iterdir()] == [".other.tmp"]
    assert len(list(living.glob(".check*.tmp"))) == 1
    writers[1].kill()
    for writer in writers:
        writer.communicate()


@pytest.mark.slow
def test_a_start_sweeps_the_files_of_a_run_that_was_killed_while_it_saved(tmp_path: Path) -> None:
    left = (
        tmp_path / "runs" / "20260101-000000-roles" / ".checkpoint-0000009.safetensors.abcdefgh.tmp"
    )
    left.parent.mkdir(parents=True)
    left.write_bytes(np.zeros(9).tobytes())
    assert run_up(configure(tmp_path, "single", iterations=1)).returncode == 0
    assert not left.exists()


@pytest.mark.slow
def test_a_reader_of_stdout_that_closes_does_not_end_the_training(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=30)
    with subprocess.Popen(
        runtime_command("up", cluster.name),
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(60) == 0, told
    assert told == (
        "stdout: the reader of its pipe has gone: further events are written to events.jsonl only\n"
    )

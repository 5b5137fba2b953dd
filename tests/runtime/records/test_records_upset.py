"""Locks and runs whose files are moved, copied, linked or removed from outside, and processes that
fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.cpu.codegen.store import Kept
from roles.checkpoints.meant import newest_first
from runtime import launch
from runtime.attached.ending import end
from runtime.attached.finding import live
from runtime.attached.observed_run import LocalRun
from runtime.attached.run_status import last_checkpoint, run_status
from runtime.cli.arguments import HERE
from runtime.cli.main import main
from runtime.cli.watch.run_sampling import seen_by
from runtime.machine import forks
from runtime.plan.run_plan import RunPlan
from runtime.records import lock_file, presence
from runtime.records.lock_file import path_of, read
from runtime.records.presence import Sign, presence_of, presences
from runtime.records.run_identity import Identity
from runtime.records.runs import runs_in
from runtime.records.sweeping import sweep
from runtime.records.up_lock import UpLock
from tests.helpers.adders import Add, Total, adders


def until(seen: Callable[[], object]) -> None:
    """Wait until `seen` returns true. The thread of the lock works meanwhile; the time limit of the
    test ends a wait in vain.
    """
    while not seen():
        os.sched_yield()


def run_in(folder: Path, name: str, up: str = "", began: float = 1.0) -> Path:
    """A run directory."""
    directory = folder / name
    directory.mkdir()
    Identity.new("exp", began, up=up).write(directory)
    (directory / "events.jsonl").write_text('{"t": 0.0, "actor": "a", "event": "began"}\n')
    return directory


def test_a_lock_that_was_removed_is_made_again_by_its_holder(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        directory = run_in(tmp_path, "one", lock.up)
        lock.says(lock_file.BETWEEN, "one")
        path_of(tmp_path, lock.up).unlink()
        until(path_of(tmp_path, lock.up).exists)
        found = presence_of(directory)
        assert found is not None and found.sign is Sign.HELD
        assert read(path_of(tmp_path, lock.up)).state == lock_file.BETWEEN
    assert list(tmp_path.glob(".up-*")) == []


def test_a_forked_child_of_a_script_neither_keeps_nor_removes_the_lock_of_its_parent(
    tmp_path: Path,
) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from runtime.records.up_lock import UpLock
with UpLock(Path(sys.argv[1]), print) as lock:
    pid = os.fork()
    if pid == 0:
        if sys.argv[2] == "leaves":
            sys.exit(0)
        signal.pause()
    if sys.argv[2] == "leaves":
        os.waitpid(pid, 0)
    print(pid, flush=True)
    signal.pause()
"""
    for how in ("leaves", "stays"):
        words = [sys.executable, "-c", script, str(tmp_path), how]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            (found,) = presences(tmp_path)
            assert found.sign is Sign.HELD
            parent.kill()
            parent.wait()
            until = time.monotonic() + 60  # the child may not have run since it was forked
            while presences(tmp_path) and time.monotonic() < until:
                time.sleep(0.01)
            assert presences(tmp_path) == [], "a child that lives keeps the lock"
            if how == "stays":
                os.kill(child, signal.SIGKILL)
        sweep(tmp_path)


def test_a_descriptor_that_is_kept_from_children_is_closed_in_them_alone() -> None:
    readable, writable = os.pipe()
    forks.keep_from_children(writable)
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(writable)
        except OSError:
            forks.close(writable)  # has no effect in the child
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    forks.close(writable)
    assert os.read(readable, 1) == b"", "another process still has the descriptor"
    os.close(readable)


def test_a_lock_works_on_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with UpLock(Path("runs"), print) as lock:
        monkeypatch.chdir("/")
        lock.says(lock_file.RUNNING, "later")
        until(lambda: read(path_of(tmp_path / "runs", lock.up)).run == "later")
    assert list((tmp_path / "runs").iterdir()) == []


async def test_down_waits_for_an_up_whose_folder_is_moved_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    moved = tmp_path / "moved"
    folder.mkdir()
    with UpLock(folder, lambda text: None) as lock:
        directory = run_in(folder, "one", lock.up)
        lock.says(lock_file.BETWEEN, "one")
        asking = asyncio.create_task(end(LocalRun(directory), now=False))
        # a file raises no event
        while not path_of(folder, lock.up, lock_file.END).exists():  # noqa: ASYNC110
            await asyncio.sleep(0)
        folder.rename(moved)
        done, _ = await asyncio.wait([asking], timeout=0.5)
        assert not done, "`down` did not wait although `up` still holds its lock"
        moved.rename(folder)
    assert (await asking).run == directory


async def test_a_wish_that_was_removed_is_written_again(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        directory = run_in(tmp_path, "one", lock.up)
        lock.says(lock_file.BETWEEN, "one")
        wish = path_of(tmp_path, lock.up, lock_file.END)
        asking = asyncio.create_task(end(LocalRun(directory), now=False))
        for _ in range(2):
            while not wish.exists():  # noqa: ASYNC110  # a file raises no event
                await asyncio.sleep(0)
            wish.unlink()
    await asking


def test_a_copy_of_a_run_directory_is_not_newer_than_the_run(tmp_path: Path) -> None:
    first = run_in(tmp_path, "20260101-000000-exp")
    shutil.copytree(first, tmp_path / "20260101-000000-exp.bak")
    assert runs_in(tmp_path)[-1].directory == first


async def test_a_link_to_a_run_and_a_copy_of_it_do_not_count_as_live_runs(tmp_path: Path) -> None:
    with UpLock(tmp_path, print) as lock:
        directory = run_in(tmp_path, "one", lock.up)
        lock.says(lock_file.RUNNING, "one")
        until(lambda: read(path_of(tmp_path, lock.up)).run == "one")
        (tmp_path / "latest").symlink_to("one")
        shutil.copytree(directory, tmp_path / "one.bak")
        assert [alive.directory for alive in await live(tmp_path)] == [directory]


def test_a_lock_that_is_seen_through_another_mount_is_judged_by_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flock does not count there, although the kernel is the same."""
    with UpLock(tmp_path, print) as lock:
        monkeypatch.setattr(lock_file, "inode_of", lambda about: "another:mount")
        monkeypatch.setattr(presence.lock_file, "is_held", lambda path: False)
        (found,) = presences(tmp_path)
        assert found.sign is Sign.ELSEWHERE
        sweep(tmp_path)
        assert path_of(tmp_path, lock.up).exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty; expected the journal of a run"),
        (
            ('{"t": 0.0, "actor": "a", "event": "began"}\n{"t": 1.0, "ac'),
            "its last line has no end and is left out",
        ),
        ('{"t": 0.0, "actor": "a", "event": "began"}\n', None),
    ],
)
async def test_an_incomplete_end_of_a_finished_journal_is_reported(
    tmp_path: Path,
    text: str,
    told: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = run_in(tmp_path, "one")
    (directory / "events.jsonl").write_text(text)
    found = await run_status(LocalRun(directory))
    assert [told in note for note in found["damaged"]] == [True] if told else found["damaged"] == []
    assert ("not known" in last_checkpoint(found, directory)) is (told is not None)
    assert await asyncio.to_thread(main, ["events", str(directory)]) == 0
    err = capsys.readouterr().err
    assert told in err if told else err == ""


async def test_status_shows_the_settings_that_the_tuner_chose_and_the_prediction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_in(tmp_path, "one")
    shown = "predicted 21 ms, measured 20 ms an iteration"
    told: list[dict[str, object]] = [
        {"event": "regrouped", "iteration": 0, "groups": 1, "momentum": 0.9},
        {"event": "prediction", "text": shown, "notes": []},
        {"event": "regrouped", "iteration": 40, "groups": 4, "momentum": 0.6},
    ]
    with (directory / "events.jsonl").open("a") as journal:
        for at, event in enumerate(told):
            journal.write(json.dumps({"t": float(at), "actor": "coordinator", **event}) + "\n")
    found = await run_status(LocalRun(directory))
    assert found["settings"] == {"iteration": 40, "groups": 4, "momentum": 0.6}
    assert await asyncio.to_thread(main, ["status", str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  groups 4  momentum 0.6, from iteration 40" in lines
    assert f"  {shown}" in lines


async def test_status_of_a_run_that_is_over_shows_its_result_not_its_last_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_in(tmp_path, "one")
    with (directory / "events.jsonl").open("a") as journal:
        for event in (
            {"event": "progress", "iteration": 50, "max_iter": 60},
            {"event": "finished", "iterations": 60, "accuracy": 0.9},
            {"event": "ended"},
        ):
            journal.write(json.dumps({"t": 1.0, "actor": "coordinator", **event}) + "\n")
    found = await run_status(LocalRun(directory))
    assert found["result"] == {"iterations": 60, "accuracy": 0.9}
    assert await asyncio.to_thread(main, ["status", str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  iterations 60  accuracy 0.9" in lines
    assert not [line for line in lines if "50/60" in line]


def test_the_name_of_a_run_given_alone_is_not_taken_for_the_name_of_an_actor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    run_in(tmp_path / "runs", "20260101-000000-exp")
    assert seen_by("exp", None, HERE)[1] is None
    assert seen_by("conv-0-0", None, HERE)[1] == "conv-0-0"


async def test_processes_of_a_run_in_another_container_are_not_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their pids may belong to other processes on this host."""
    async with launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("two", Add(number=1), Total)
        socket = Path(RunPlan.read(run.directory).supervisor.control[0].removeprefix("unix://"))
        socket.rename(socket.with_suffix(".away"))  # noqa: ASYNC240  # as in another container
        assert await asyncio.to_thread(main, ["stack", str(run.directory)]) == 1
        socket.with_suffix(".away").rename(socket)
        await run.tell("one", Add(number=10))
    told = capsys.readouterr()
    assert "its processes cannot be looked at from here" in told.err and "pid" not in told.out


def test_a_copy_of_a_checkpoint_under_another_name_is_not_the_newest(tmp_path: Path) -> None:
    for name in ("100-before-change", "0000300", "00000020"):
        (tmp_path / f"checkpoint-{name}.safetensors").touch()
    assert [path.name[11:-12] for path in newest_first(tmp_path)] == ["0000300", "00000020"]


@pytest.mark.parametrize(
    "harm", [lambda data: bytes(len(data)), lambda data: data[: len(data) // 2], lambda data: b""]
)
def test_a_kernel_that_is_damaged_on_the_disk_is_compiled_again(
    tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    kept = Kept(tmp_path, "kernel")
    kept.write(b"machine code")
    assert Kept(tmp_path, "kernel").read() == b"machine code"
    (file,) = tmp_path.iterdir()
    file.write_bytes(harm(file.read_bytes()))
    assert Kept(tmp_path, "kernel").read() is None

"""An `up` that lives although its sockets cannot be reached: the output of commands, and the
actions of `down`."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import runtime
from benchmarks.helpers.survivor import Survivor
from runtime.attached import ending
from runtime.attached.ending import end
from runtime.attached.finding import live, meant
from runtime.attached.observed_run import LocalRun
from runtime.attached.run_status import run_status
from runtime.cli.main import main
from runtime.errors import ActorStopped, ConfigError, ConvoyError
from runtime.plan.run_plan import RunPlan
from runtime.records.lock_file import BETWEEN, CHOOSING, SIZE, path_of, read
from runtime.records.run_identity import Identity
from runtime.records.up_lock import UpLock
from runtime.records.wishes import ask_to_end, wish_of
from runtime.recovery import up_runs
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from tests.helpers.adders import Add, Total, adders
from tests.helpers.mortal_adders import FILE
from tests.helpers.support import configure, environment, run_up, runtime_command
from tests.roles.test_auto_preset import PROFILE, VIRTUAL
from tests.runtime.records.test_records_locks import ELSEWHERE, HOLD

CLUSTER = """program = "tests.helpers.mortal_adders"
[placement]
processes = "one"
[recovery]
restarts = 9
backoff_seconds = {backoff}
"""


@contextmanager
def mortal(folder: Path, backoff: float = 60.0) -> Iterator[Survivor]:
    """`up` of a run that survives deaths, after its beginning."""
    (folder / "cluster.toml").write_text(CLUSTER.format(backoff=backoff))
    run = Survivor(folder / "cluster.toml", {**environment(), FILE: str(folder / "dies")})
    try:
        run.until("began ")
        yield run
    finally:
        run.stop()


@contextmanager
def between(folder: Path) -> Iterator[Survivor]:
    """The same `up` after its second run could not begin. Its third run begins in a minute."""
    with mortal(folder) as run:
        (folder / "dies").touch()
        die(run)
        run.until(r"restart +2 of 9 within .*, in 60 s")
        yield run


def die(run: Survivor) -> None:
    """Kill a process of the present run."""
    os.kill(max(run.pids().values()), signal.SIGKILL)


def test_between_two_runs_commands_report_it_and_down_ends_the_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with between(tmp_path) as run:
        name = run.newest.name
        assert main(["ps"]) == 0
        told = capsys.readouterr().out
        assert told.count("\n") == 1 and told.startswith(name) and "between two runs" in told
        for said in (name, f"runs/{name}", run.directories[0].name):
            assert main(["status", said]) == 0
            assert ("between two runs" in capsys.readouterr().out) == (name in said)
        assert main(["status", "tests.helpers.mortal_adders"]) == 0
        assert capsys.readouterr().out.startswith(f"{name}  between two runs")
        monkeypatch.chdir(run.newest)
        assert main(["ps", "."]) == 0
        assert "between two runs" in capsys.readouterr().out
        monkeypatch.chdir(tmp_path)
        assert main(["save"]) == 1
        assert (
            f"the run in runs/{name} cannot be reached: between two runs"
        ) in capsys.readouterr().err
        assert main(["events"]) == 0
        capsys.readouterr()
        assert main(["report"]) == 0 and (run.newest / "report.html").is_file()
        capsys.readouterr()
        assert main(["down"]) == 0
        assert capsys.readouterr().out == f"{name} has ended; last checkpoint: none\n"
        assert run.process.wait(10) == 4
        assert main(["ps"]) == 0 and capsys.readouterr().out == "no live run in runs\n"
        assert [path.name for path in run.runs.iterdir()] == [
            path.name for path in run.runs.glob("2*")
        ]


def test_down_of_an_earlier_run_ends_the_up_that_has_since_started_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with mortal(tmp_path) as run:
        (first,) = run.directories
        die(run)
        run.until("began ")
        assert main(["status", first.name]) == 0 and " failed, since" in capsys.readouterr().out
        assert main(["down", first.name]) == 0
        assert capsys.readouterr().out == f"{run.newest.name} has ended; last checkpoint: none\n"
        assert run.newest != first and run.end(10)[0] == 0


async def test_a_death_during_down_starts_no_further_run(tmp_path: Path) -> None:
    """The run ends before it has received the request to end. The run that would follow must not
    begin."""
    (run := tmp_path / "a").mkdir()
    with UpLock(tmp_path, print) as lock:
        Identity.new("exp", 1.0, up=lock.up).write(run)
        lock.says(BETWEEN, "a")

        class Dying(LocalRun):
            async def answers(self) -> bool:
                return True

            def client(self) -> Any:
                raise ActorStopped("it died")

        ended = asyncio.create_task(end(Dying(run), now=False))
        await _until(lambda: wish_of(tmp_path, lock.up) is False)
        assert not ended.done()
    assert (await ended).run == run
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # noqa: ASYNC240


async def test_a_run_whose_sockets_cannot_be_reached_is_reported_and_ended_through_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("two", Add(number=1), Total)
        address = Path(RunPlan.read(run.directory).supervisor.control[0].removeprefix("unix://"))
        address.rename(address.with_suffix(".away"))  # noqa: ASYNC240  # as in another container
        host = os.uname().nodename
        assert await asyncio.to_thread(main, ["ps", str(tmp_path)]) == 0
        assert f" runs on {host} " in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["save", str(run.directory)]) == 1
        assert "or is in another container" in capsys.readouterr().err
        assert await asyncio.to_thread(main, ["down", str(run.directory)]) == 0
        assert capsys.readouterr().out == f"{run.directory.name} has ended; last checkpoint: none\n"
        assert await run.ended() is None
        assert {event.fields.get("reason") async for event in run.events()} >= {
            "asked to from outside"
        }
        address.with_suffix(".away").unlink(missing_ok=True)
    assert list(tmp_path.glob(".up-*")) == []  # noqa: ASYNC240


def test_an_up_that_is_stopped_and_cannot_be_reached_is_named_and_keeps_no_command_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "FRESH_SECONDS", 0.5)
    (run := tmp_path / "a").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        up = process.stdout.readline().strip()
        Identity.new("exp", 1.0, up=up).write(run)
        process.send_signal(signal.SIGSTOP)
        told = (
            f"does not answer: its `up`, process {process.pid} on {os.uname().nodename}, "
            "gives no sign of life"
        )
        with pytest.raises(ConvoyError, match=told):
            asyncio.run(end(LocalRun(run), now=False))
        assert wish_of(tmp_path, up) is None, "a request that was not received must be withdrawn"
        process.kill()


@pytest.mark.parametrize("command", [["down"], ["save"], ["scale", "--workers", "2"]])
def test_a_run_on_a_silent_host_is_reported_and_no_command_claims_success(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (run := tmp_path / "runs" / "a").mkdir(parents=True)
    Identity.new("exp", 1.0, up="x").write(run)
    (run / "events.jsonl").touch()
    (run / "plan.json").write_text("{}")
    lock = path_of(run.parent, "x")
    lock.write_text(json.dumps({"up": "x", **ELSEWHERE, "renewed": time.time() - 3600}).ljust(SIZE))
    assert main(["ps"]) == 0
    assert "elsewhere: last sign 3600 s ago" in capsys.readouterr().out
    (run / "plan.json").unlink()
    assert main(["status"]) == 0
    assert "elsewhere: last sign 3600 s ago" in capsys.readouterr().out
    assert main(command) != 0
    told = capsys.readouterr().err
    if command == ["down"]:
        assert (
            "whether the run a is over is known on its host only; if that host is gone "
            "for good, remove "
        ) in told
        assert str(Path("runs") / lock.name) in told
    assert [path.name for path in run.parent.glob(".up-*")] == [lock.name]


def test_an_up_that_has_no_run_directory_yet_is_starting_and_its_folder_is_not_taken_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with UpLock(Path("runs"), print) as one, UpLock(Path("runs"), print) as two:
        assert main(["ps"]) == 0
        told = sorted(capsys.readouterr().out.splitlines())
        assert [line.split()[:3] for line in told] == sorted(
            ["up", lock.up, "starting"] for lock in (one, two)
        )
        assert main(["status"]) == 2
        assert "found no run there" in capsys.readouterr().err


async def test_two_ups_of_one_folder_are_distinguished_by_the_names_of_their_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beta").mkdir()  # a folder with the name of a run that is not a run directory
    runs = [runtime.launch(adders(), name=name, processes="one") for name in ("alpha", "beta")]
    async with runs[0] as alpha:
        async with runs[1] as beta:
            for run in (alpha, beta):
                await run.ask("two", Add(number=1), Total)
            assert await asyncio.to_thread(main, ["ps"]) == 0
            assert len(capsys.readouterr().out.splitlines()) == 2
            assert await asyncio.to_thread(main, ["status", "beta"]) == 0
            assert capsys.readouterr().out.startswith(f"{beta.directory.name}  running")
            with pytest.raises(ConfigError, match="say which"):
                await meant(None, Path("runs"))
            assert await asyncio.to_thread(main, ["down", "beta"]) == 0
            assert capsys.readouterr().out.startswith(f"{beta.directory.name} has ended")
        (left,) = await live(Path("runs"))
        assert left.directory == Path("runs", alpha.directory.name)
        assert await asyncio.to_thread(main, ["down"]) == 0
    assert list(Path("runs").glob(".up-*")) == []  # noqa: ASYNC240


async def test_a_request_next_to_the_lock_ends_the_trials_of_presets_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    class Trying:
        has_begun = over = False
        checked = "as it was"

        def __init__(self) -> None:
            self.ended = asyncio.Event()

        async def settled(self) -> None:
            await self.ended.wait()

        async def wind_down(self, reason: str = "") -> None:
            self.over = True
            self.ended.set()

    with UpLock(tmp_path, print) as lock:
        directory = RunDirectory(tmp_path, "exp", up=lock.up)
        lock.says(CHOOSING, directory.path.name)
        console = RunConsole(Console(file=io.StringIO()), live=False)
        settled = asyncio.create_task(up_runs._settled(Trying(), directory, console, lock))  # type: ignore[arg-type]
        await asyncio.to_thread(ask_to_end, tmp_path, lock.up, now=False)
        assert await asyncio.wait_for(settled, 20) == ("as it was", 0)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


@pytest.mark.slow  # importing, planning and trying presets takes 5 s
def test_an_up_that_chooses_a_preset_reports_it_and_is_ended_by_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "auto", workers=2, iterations=1_000_000, paced=True)
    choosing = Survivor(tmp_path / "cluster.toml", environment())
    try:
        folder = tmp_path / "runs"
        for _ in range(6000):
            if [read(path).state for path in folder.glob(".up-*.lock")] == [CHOOSING]:
                break
            time.sleep(0.01)
        assert main(["ps"]) == 0
        assert CHOOSING in capsys.readouterr().out
        assert main(["down"]) == 0
        assert "has ended; last checkpoint: none" in capsys.readouterr().out
        assert choosing.process.wait(10) == 0
        assert list(folder.iterdir()) == []
    finally:
        choosing.process.kill()
        choosing.end()


def test_a_run_on_virtual_time_holds_no_lock(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=2, more=VIRTUAL)
    cluster.write_text(cluster.read_text().replace("[train]\n", "[train]\nkernels = 'numpy'\n"))
    (tmp_path / "times.json").write_text(json.dumps(PROFILE))
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "run.json").read_text())["up"] == ""


async def _until(said: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not said():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


# -- the newest run, whatever the time zone of its `up`


def test_resume_takes_the_run_that_began_last_even_if_its_name_has_an_earlier_hour(
    tmp_path: Path,
) -> None:
    """The cases are the hour that comes twice in autumn, and a container and its host with
    different time zones."""
    (tmp_path / "cluster.toml").write_text(
        '[train]\nmax_iter = 40\nkernels = "numpy"\n[train.strategy]\npreset = '
        '"single"\nworkers = 1\n'
        "[checkpoint]\nseconds = 0\n"
    )
    (tmp_path / "exp").mkdir()  # a folder with the name of the run that is not a run directory
    for zone, iterations, more in (
        ("XXX-2", 2, []),
        ("XXX-1", 3, []),
        ("XXX-1", 4, ["--resume", "exp"]),
    ):
        done = subprocess.run(
            runtime_command(
                "up", "--set", f"train.max_iter={iterations}", "--set", "run.name=exp", *more
            ),
            cwd=tmp_path,
            env={**environment(), "TZ": zone},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "checkpoint-0000003.safetensors: iteration 3\n" in done.stdout


async def test_status_shows_the_time_at_which_a_run_began_not_the_time_in_its_name(
    tmp_path: Path,
) -> None:
    (run := tmp_path / "20010101-000000-exp").mkdir()
    Identity.new("exp", 1_700_000_000.5).write(run)
    found = await run_status(LocalRun(run))
    assert found["since"] == 1_700_000_000.5 and found["id"]

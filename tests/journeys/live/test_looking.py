"""Commands that show a live run, with processes that are stuck or stopped: `top`, `stack` and
`logs`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import runtime
from runtime import Run
from runtime.attached.attach import attach
from runtime.cli.main import main
from runtime.cli.watch import stack_files
from runtime.cli.watch.run_sampling import Looking
from runtime.errors import RoleDied
from tests.helpers.support import ROOT, environment, runtime_command
from tests.helpers.terminal import terminal
from tests.helpers.watched import Asked, Block, Hello, Hold, Line, watched

PATIENT = {"missed": 400, "standstill_seconds": 600.0}


@asynccontextmanager
async def live(directory: Path) -> AsyncIterator[Run]:
    async with runtime.launch(watched(), directory=directory, liveness=PATIENT) as run:
        await run.ask("deaf", Asked(), Hello)
        yield run
        await run.end_now()


async def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    code = await asyncio.to_thread(main, list(map(str, words)))
    told = capsys.readouterr()
    return code, told.out + told.err


async def said_until(capsys: pytest.CaptureFixture[str], wanted: str, *words: str | Path) -> str:
    """Repeat a command until its output has `wanted`. A message to an actor takes a while. Returns
    the output."""
    while True:
        code, out = await said(capsys, *words)
        assert code == 0, out
        if wanted in out:
            return out


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let live processes answer late, since they share the cores with other tests."""
    look = Looking.look
    monkeypatch.setattr(Looking, "look", lambda self, within: look(self, 10.0))
    monkeypatch.setattr(stack_files, "HERE_SECONDS", 20.0)


async def pid_of(run: Run, process: str) -> int:
    async with attach(run.directory) as client:
        pid: int = (await client.status()).processes[process]["pid"]
        return pid


@pytest.mark.usefixtures("patient")
async def test_top_shows_the_computing_and_waiting_actors_and_the_bottleneck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        code, out = await said(capsys, "top", run.directory, "--json")
        assert code == 0
        found = json.loads(out)
        actors: dict[str, dict[str, Any]] = {row["actor"]: row for row in found["actors"]}
        assert actors["busy"]["computing"] > 0 and actors["busy"]["messages"] > 0
        assert actors["asker"]["state"].startswith("waits for deaf (Unanswered) for ")
        assert actors["asker"]["waits"]["deaf"] == pytest.approx(1.0, abs=0.05)
        # a greeting may be in transit
        assert actors["deaf"]["computing"] == 0.0 and actors["deaf"]["inbox"] <= 1
        assert found["bottleneck"].startswith("busy ") or "wait for deaf" in found["bottleneck"]


@pytest.mark.slow
async def test_top_names_a_process_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        await run.tell("stuck", Block())
        out = await said_until(
            capsys, "process stuck does not answer", "top", run.directory, "--once"
        )
        (line,) = [line for line in out.splitlines() if line.startswith("stuck")]
        assert "no answer for" in line
        assert "process stuck does not answer: it is stuck or stopped" in out


@pytest.mark.usefixtures("patient")
async def test_stack_of_an_actor_shows_the_actor_it_waits_for_and_the_stacks_of_its_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        code, out = await said(capsys, "stack", run.directory, "asker")
        assert code == 0 and out.count("process ") == 1
        assert "asker: waits for deaf (Unanswered) for " in out
        assert "Thread MainThread (most recent call first)" in out and "in _lifeline" in out
        code, out = await said(capsys, "stack", run.directory, "askr")
        assert code == 2 and "no actor of this run is called 'askr' (did you mean 'asker'?)" in out
    code, out = await said(capsys, "stack", run.directory)
    assert code == 1 and "is over" in out


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
async def test_stack_shows_the_waits_of_actors_and_the_stacks_of_a_process_whose_loop_is_stuck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        await run.tell("stuck", Block())
        stopped = await pid_of(run, "lead")
        os.kill(stopped, signal.SIGSTOP)
        try:
            out = await said_until(capsys, "its event loop does not answer", "stack", run.directory)
        finally:
            os.kill(stopped, signal.SIGCONT)
        parts = {part.split(":")[0]: part for part in out.split("process ")[1:]}
        assert "asker: waits for deaf (Unanswered) for " in parts["asker"]
        assert ("Thread MainThread (most recent call first)") in parts[
            "asker"
        ] and "lifeline" in parts["asker"]
        assert (
            "its event loop does not answer" in parts["stuck"] and "in stuck_here" in parts["stuck"]
        )
        assert f"it is stopped: `kill -CONT {stopped}` lets it go on" in parts["lead"]
        assert "Thread" not in parts["lead"]


@pytest.mark.slow
async def test_stack_explains_missing_stacks_if_a_library_holds_the_lock_and_the_process_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        pipe = tmp_path / "lets-go"
        os.mkfifo(pipe)
        await run.tell("stuck", Hold(pipe=str(pipe)))
        locked = "a call into a library keeps the interpreter's lock"
        out = await said_until(capsys, locked, "stack", run.directory, "stuck")
        assert (
            "its event loop does not answer" in out
            and "Thread" not in out
            and "`stack --native`" in out
        )
        pipe.write_bytes(b"x")
        await said_until(
            capsys, ("Thread MainThread (most recent call first)"), "stack", run.directory, "stuck"
        )


async def test_the_log_of_a_silent_process_shows_its_stacks_even_if_a_library_holds_the_lock(
    tmp_path: Path,
) -> None:
    async with runtime.launch(watched(), directory=tmp_path) as run:
        await run.ask("deaf", Hello(), Hello)
        os.mkfifo(tmp_path / "never-written")
        await run.tell("stuck", Hold(pipe=str(tmp_path / "never-written")))
        with pytest.raises(
            RoleDied, match=(r"(?s)process stuck .* sent no heartbeat for .* " r"in hold_here")
        ):
            await run.result()


async def test_logs_are_shown_with_names_in_the_order_of_their_times_and_followed_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as run:
        following = asyncio.create_task(asyncio.to_thread(main, ["logs", str(run.directory), "-f"]))
        for text in ("first", "a \x1b[2J\x07trick\r", "last"):
            await run.ask("deaf", Line(text=text), Hello)
    assert await following == 0
    followed = capsys.readouterr().out.splitlines()
    texts = [line.partition(" convoy.deaf ")[2] for line in followed if line.startswith("deaf ")]
    assert [text for text in texts if text] == ["first", "a \\x1b[2J\\x07trick", "last"]
    code, out = await said(capsys, "logs", run.directory)
    assert code == 0 and sorted(out.splitlines()) == sorted(followed)
    code, out = await said(capsys, "logs", run.directory, "deaf")
    assert code == 0 and [line for line in out.splitlines() if not line.startswith("deaf  ")] == []
    with (run.directory / "logs" / "deaf.log").open("a") as log:
        log.write("half a line")
    code, out = await said(capsys, "logs", run.directory, "deaf")
    assert code == 0 and out.endswith("deaf  half a line\n")
    code, out = await said(capsys, "logs", run.directory, "nobody")
    assert code == 2 and "no process of this run is called 'nobody'" in out


@pytest.mark.slow
async def test_top_fills_a_terminal_and_q_ends_it_and_leaves_the_terminal_as_it_was(
    tmp_path: Path,
) -> None:
    async with live(tmp_path) as run:

        def watch() -> tuple[int, list[str]]:
            command = runtime_command("top", run.directory)
            with terminal(command, 80, 24, ROOT, environment()) as screen:
                shown = screen.until(lambda lines: any(line.startswith("stuck") for line in lines))
                assert not screen.echoes()
                screen.type(b"q")
                code = screen.end()
                assert screen.echoes()
                assert (
                    screen.raw.endswith(b"\x1b[?1049l\x1b[?25h")
                    or b"\x1b[?1049l" in screen.raw[-40:]
                )
                return code, shown

        code, shown = await asyncio.to_thread(watch)
        assert code == 0
        assert shown[0] == f"{run.directory.name}   q: end"
        assert [line.split()[0] for line in shown[6:11]] == [
            "asker",
            "busy",
            "deaf",
            "lead",
            "stuck",
        ]


@pytest.mark.slow
async def test_native_stacks_come_from_py_spy_or_a_line_names_the_missing_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path) as run:
        code, out = await said(capsys, "stack", run.directory, "asker", "--native")
        assert code == 0 or "pip install 'convoy-runtime[stacks]'" in out
        assert code == 2 or "MainThread" in out or "py-spy cannot look into the process" in out
        monkeypatch.setattr("shutil.which", lambda *_, **__: None)
        code, out = await said(capsys, "stack", run.directory, "asker", "--native")
        assert (
            code == 2
            and ("--native: py-spy is not installed: pip install 'convoy-runtime[stacks]'") in out
        )


@pytest.mark.slow
async def test_stacks_are_shown_even_while_the_process_of_up_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(
        'program = "tests.helpers.idle_adders"\n[run]\ndirectory = '
        '"runs"\n[liveness]\nmissed = 400\n'
    )
    environ = {**environment(), "PYTHONPATH": str(ROOT)}
    pipe = asyncio.subprocess.PIPE
    up = await asyncio.create_subprocess_exec(
        *runtime_command("up"), cwd=tmp_path, env=environ, stdout=pipe
    )
    assert up.stdout is not None
    while not (await up.stdout.readline()).startswith(b"began"):
        pass
    up.send_signal(signal.SIGSTOP)
    try:
        looking = await asyncio.create_subprocess_exec(
            *runtime_command("stack"), cwd=tmp_path, env=environ, stdout=pipe
        )
        out, _ = await looking.communicate()
    finally:
        up.send_signal(signal.SIGCONT)
        up.send_signal(signal.SIGTERM)
        await up.communicate()
    assert looking.returncode == 0
    assert b"does not answer: the following comes from its processes alone" in out
    assert b"(most recent call first)" in out

"""Commands that follow a run whose `up` is killed, or ask a run whose `up` is stopped: one line on
stderr, and an exit code."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import runtime
from tests.helpers.adders import Add, Total, adders
from tests.helpers.support import ROOT, environment, run_directory, runtime_command
from tests.helpers.terminal import terminal

CLUSTER = """program = "tests.helpers.idle_adders"
[run]
directory = "runs"
[operators]
address = "127.0.0.1"
"""
ENVIRONMENT = {**environment(), "PYTHONPATH": str(ROOT)}


@contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A live run that has begun."""
    (folder / "cluster.toml").write_text(CLUSTER)
    command = runtime_command("up")
    with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith(b"began") for line in process.stdout)
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            process.stdout.read()


def follower(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A following command that has printed its first line."""
    pipe = subprocess.PIPE
    made = subprocess.Popen(
        runtime_command(*words), cwd=folder, env=ENVIRONMENT, stdout=pipe, stderr=pipe
    )
    assert made.stdout is not None
    assert made.stdout.readline()
    return made


def test_followers_of_a_run_whose_up_is_killed_report_it_and_fail(tmp_path: Path) -> None:
    with ExitStack() as stack:
        process = stack.enter_context(up(tmp_path))
        directory = run_directory(tmp_path / "cluster.toml")
        (directory / "logs" / "other.log").write_text("a line\n")
        far = "--connect", str(directory / "operator.key")
        commands = {("events", "-f"), ("logs", "-f"), ("events", "-f", *far), ("logs", "-f", *far)}
        followers = {words: stack.enter_context(follower(tmp_path, *words)) for words in commands}
        screen = stack.enter_context(
            terminal(runtime_command("top"), 120, 30, tmp_path, ENVIRONMENT)
        )
        screen.until(lambda shown: "q: end" in "".join(shown))
        process.kill()
        for words, each in followers.items():
            _, errors = each.communicate()
            assert (words, each.returncode, errors.count(b"\n")) == (words, 1, 1)
            assert (
                b"the connection to " in errors and b" broke; " in errors and b"may go on" in errors
            )
        assert screen.end() == 1
        assert "broke; it may go on" in "".join(screen.shown())


@pytest.mark.slow  # 5 s
async def test_a_remote_follower_that_the_run_did_not_wait_for_reports_a_missing_end(
    tmp_path: Path,
) -> None:
    launched = runtime.launch(
        adders(), directory=tmp_path, processes="one", operators={"address": "127.0.0.1"}
    )
    async with launched as run:
        await run.ask("one", Add(number=3), Total)
        key = str(run.directory / "operator.key")
        made = await asyncio.to_thread(follower, tmp_path, "events", "-f", "--connect", key)
        made.send_signal(signal.SIGSTOP)
        await run.tell("one", Add(number=7))
    assert await run.ended() is None
    made.send_signal(signal.SIGCONT)
    _, errors = await asyncio.to_thread(made.communicate)
    assert (made.returncode, errors.count(b"\n")) == (1, 1)
    assert (
        b"broke; " in errors or b"was gone before the rest of its files was copied here" in errors
    )


@pytest.mark.slow  # 6 s each
@pytest.mark.parametrize("far", [False, True], ids=["here", "from elsewhere"])
def test_commands_on_a_run_whose_up_is_stopped_report_that_it_does_not_answer(
    tmp_path: Path, far: bool
) -> None:
    with up(tmp_path) as process, ExitStack() as stack:
        directory = run_directory(tmp_path / "cluster.toml")
        process.send_signal(signal.SIGSTOP)
        where = ("--connect", str(directory / "operator.key")) if far else ()
        pipe = subprocess.PIPE
        started = {}
        for words in (
            ("status",),
            ("down",),
            ("save",),
            ("scale", "--workers", "2"),
            ("trace", "start"),
            ("top",),
        ):
            command = runtime_command(*words, *where)
            each = subprocess.Popen(
                command, cwd=tmp_path, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True
            )
            started[words] = stack.enter_context(each)
        for words, each in started.items():
            out, errors = each.communicate()
            assert (words, each.returncode, out) == (words, 1, "")
            assert (
                errors.startswith("the run ")
                and errors.endswith(" does not answer\n")
                and errors.count("\n") == 1
            )

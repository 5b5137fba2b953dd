"""Pipes whose reader has closed: commands end at once and silently, as if by SIGPIPE. Pipes whose
reader does not read: a run goes on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

import pytest

import runtime
from roles.commands import COMMANDS as TRAINING
from runtime.cli.main import COMMANDS, NOBODY_READS, application
from tests.helpers.adders import Add, Total, adders
from tests.helpers.support import configure, environment, events, run_directory, runtime_command


def read_until(last: bytes, command: list[str]) -> tuple[int, bytes]:
    """Read until `last` appears, then close the pipe. Returns the exit code and stderr."""
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert any(last in line for line in iter(process.stdout.readline, b""))
        process.stdout.close()
        return process.wait(60), process.stderr.read()


def test_a_command_whose_reader_takes_only_the_first_lines_of_a_journal_ends_quietly(
    tmp_path: Path,
) -> None:
    line = json.dumps({"t": 0.5, "actor": "one", "event": "added", "number": 7})
    (tmp_path / "events.jsonl").write_text(f"{line}\n" * 20_000)  # more than a pipe holds
    (tmp_path / "plan.json").write_text("{}")
    assert read_until(b"added", runtime_command("events", str(tmp_path))) == (NOBODY_READS, b"")


@pytest.mark.parametrize(("command", "last"), [("events", b"added"), ("logs", b"a line")])
async def test_a_follower_of_a_silent_run_ends_when_its_reader_has_closed(
    command: str, last: bytes, tmp_path: Path
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("one", Add(number=3), Total)
        (run.directory / "logs" / "other.log").write_text("a line\n")
        ended = await asyncio.to_thread(
            read_until, last, runtime_command(command, "-f", str(run.directory))
        )
        assert ended == (NOBODY_READS, b"")
        await run.end_now()


@pytest.mark.slow
@pytest.mark.parametrize("waits", [True, False])
def test_a_run_whose_output_is_not_read_trains_to_its_end_and_reports_the_lines_not_shown(
    waits: bool, tmp_path: Path
) -> None:
    """The run prints more than the pipe and the buffer before it hold: 64 KiB each, with 90
    characters a line."""
    cluster = configure(tmp_path, "single", iterations=2000, batch=4)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("base_lr: 0.01", "base_lr: 0.001"))
    with subprocess.Popen(
        runtime_command("up", cluster.name),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        if waits:
            code = process.wait(120)
            told = process.stderr.read()
            shown = process.stdout.read()
            assert (
                "stdout: it is not read, and " in told
                and ("further events are written to events.jsonl only") in told
            )
        else:
            while not any((tmp_path / "runs").glob("*/checkpoint-*")):
                assert process.poll() is None
                time.sleep(0.05)
            shown, told = process.communicate(timeout=60)
            code = process.returncode
            assert told == "" and "lines are not shown: they were not read in time" in shown
    assert code == 0
    assert "iteration 1/2000" in shown and shown.count("\n") < 2000
    assert len(list(events(run_directory(cluster), "progress"))) == 2000


@pytest.mark.parametrize("command", [*COMMANDS, *TRAINING])
def test_a_switch_that_is_off_by_default_has_no_negative_form(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application([command], "convoy")([command, "--help"], result_action="return_value")
    assert "--no-" not in capsys.readouterr().out

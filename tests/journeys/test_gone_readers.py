"""Commands in a pipe whose reader has gone: they end at once, with what SIGPIPE ends a program with, and say nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

import runtime
from runtime.cli.main import NOBODY_READS, application
from tests.journeys.adders import Add, Total, adders
from tests.support import environment, runtime_command


def test_a_journal_of_which_the_first_lines_are_read_ends_quietly(tmp_path: Path) -> None:
    line = json.dumps({"t": 0.5, "actor": "one", "event": "added", "number": 7})
    (tmp_path / "events.jsonl").write_text(f"{line}\n" * 20_000)  # more than a pipe holds
    (tmp_path / "plan.json").write_text("{}")
    command = runtime_command("events", str(tmp_path))
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as events:
        assert events.stdout is not None and events.stderr is not None
        assert b"added      number 7" in events.stdout.readline()
        events.stdout.close()
        assert (events.wait(60), events.stderr.read()) == (NOBODY_READS, b"")


@pytest.mark.parametrize("command", ["events", "logs"])
async def test_who_follows_a_run_that_says_nothing_ends_when_its_reader_has_gone(command: str, tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("one", Add(number=3), Total)
        (run.directory / "logs" / "other.log").write_text("a line\n")
        words = runtime_command(command, "-f", str(run.directory))
        with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
            assert following.stdout is not None and following.stderr is not None
            await asyncio.to_thread(following.stdout.readline)
            following.stdout.close()
            code = await asyncio.to_thread(following.wait, 60)
            assert (code, following.stderr.read()) == (NOBODY_READS, b"")
        await run.end_now()


@pytest.mark.parametrize("command", ["predict", "test", "convert", "events", "ps", "up"])
def test_a_switch_that_is_off_has_no_form_that_turns_it_off(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    application([command], "convoy")([command, "--help"], result_action="return_value")
    assert "--no-" not in capsys.readouterr().out

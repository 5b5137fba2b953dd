"""Commands that talk to a live run, next to runs that have ended, are stopped or are several: `ps`,
`status` and others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import roles
import runtime
from nets.files import checkpoint
from runtime.attached.finding import live, meant
from runtime.attached.observed_run import LocalRun
from runtime.attached.run_status import last_checkpoint, run_status
from runtime.cli.main import main
from runtime.errors import ConfigError, ConvoyError
from tests.helpers.adders import Add, Total, adders
from tests.helpers.support import ROOT, environment, runtime_command

CLUSTER = """program = "tests.helpers.idle_adders"
[run]
directory = "runs"
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A live run of two adders in one process, and the folder where `up` was typed."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "cluster.toml").write_text(CLUSTER)
    environ = {**environment(), "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(
        runtime_command("up"), cwd=folder, env=environ, text=True, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    for line in run.stdout:
        if line.startswith("began"):
            break
    yield run, folder
    run.send_signal(signal.SIGCONT)
    run.send_signal(signal.SIGTERM)
    run.communicate()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    told = capsys.readouterr()
    return code, told.out + told.err


def test_ps_and_status_show_a_live_run(
    up: tuple[subprocess.Popen[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(up[1])
    code, out = said(capsys, "ps", "--json")
    (found,) = json.loads(out)
    assert (code, found["state"], found["program"]) == (0, "running", "tests.helpers.idle_adders")
    name = found["name"]
    code, out = said(capsys, "ps")
    assert out.count("\n") == 1 and out.startswith(name)
    code, out = said(capsys, "status", name, "--json")
    processes = json.loads(out)["processes"]
    assert {actor for process in processes.values() for actor in process["actors"]} == {
        "one",
        "two",
    }
    for process in processes.values():
        assert process["stage"] == "running" and process["rss_bytes"] > 2**20
        os.kill(process["pid"], 0)
    code, out = said(capsys, "status")
    assert code == 0 and name in out and "last checkpoint: none" in out


async def test_down_ends_a_run_well_or_at_once_and_reports_a_run_that_was_over_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for now in ([], ["--now"]):
        async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
            await run.ask("two", Add(number=1), Total)
            assert await asyncio.to_thread(main, ["down", str(run.directory), *now]) == 0
            assert "has ended; last checkpoint: none" in capsys.readouterr().out
            assert await run.ended() is None
            names = [event.name async for event in run.events()]
            assert ("winding down" in names) is (not now)
            assert run.asked_to_end
        assert (await run_status(LocalRun(run.directory)))["state"] == (
            "stopped" if now else "finished"
        )
    assert await asyncio.to_thread(main, ["down", str(run.directory)]) == 0
    assert "was over before" in capsys.readouterr().out


async def test_the_resumed_checkpoint_is_shown_until_a_save_and_an_ended_run_has_no_time_left(
    tmp_path: Path,
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.tell("one", Add(number=10))
    with (run.directory / "events.jsonl").open("a") as journal:
        journal.write(
            '{"t": 1, "actor": "a", "event": "resumed", "checkpoint": "/d/runs/A/checkpoint-9.x"}\n'
        )
        for at in (1, 2):
            journal.write(
                f'{{"t": {at}, "actor": "a", "event": "progress", "iteration": '
                f'{at}, "max_iter": 9}}\n'
            )
    found = await run_status(LocalRun(run.directory))
    assert found["progress"]["iteration"] == 2 and found["eta_seconds"] is None
    assert last_checkpoint(found, Path("r")) == "none since it began with A/checkpoint-9.x"
    assert last_checkpoint({**found, "checkpoint": "c.x"}, Path("r")) == "r/c.x"


async def test_a_run_that_its_tests_end_early_is_winding_down(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("two", Add(number=1), Total)
        assert (await run_status(LocalRun(run.directory)))["state"] == "running"
        with (run.directory / "events.jsonl").open("a") as journal:
            journal.write(
                '{"t": 1.0, "actor": "lead", "event": "stopping early", "iteration": 40}\n'
            )
        assert (await run_status(LocalRun(run.directory)))["state"] == "winding down"
        await run.tell("one", Add(number=10))


@pytest.mark.slow
async def test_save_writes_a_checkpoint_and_its_path_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = roles.training({"net": "lenet", "max_iter": 10**6, "strategy": {"preset": "single"}})
    async with runtime.launch(topology, directory=tmp_path) as run:
        assert await asyncio.to_thread(main, ["save", str(run.directory)]) == 0
        saved = Path(capsys.readouterr().out.strip())
        assert saved.parent == run.directory
        checkpoint.verify(saved)
        found = await run_status(LocalRun(run.directory))
        assert (found["state"], found["checkpoint"]) == ("running", saved.name)
        assert await asyncio.to_thread(main, ["down", str(run.directory)]) == 0
        assert "last checkpoint: " in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["save", str(run.directory)]) == 1
    assert "is over" in capsys.readouterr().err


async def test_events_are_followed_to_the_end_of_the_run_and_equal_its_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        following = asyncio.create_task(
            asyncio.to_thread(main, ["events", str(run.directory), "-f", "--json"])
        )
        await run.ask("one", Add(number=3), Total)
        await run.tell("one", Add(number=7))
    assert await following == 0
    assert capsys.readouterr().out == (run.directory / "events.jsonl").read_text()
    assert await asyncio.to_thread(main, ["events", str(run.directory)]) == 0
    assert "one            added      number 7\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_stopped_supervisor_is_named_and_its_run_is_still_listed(
    up: tuple[subprocess.Popen[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(up[1])
    run, _folder = up
    run.send_signal(signal.SIGSTOP)
    try:
        code, out = said(capsys, "status")
        assert code == 1 and out.count("\n") == 1 and "does not answer" in out
        code, out = said(capsys, "ps")
        assert code == 0 and "does not answer" in out
    finally:
        run.send_signal(signal.SIGCONT)


async def test_status_of_a_run_that_is_over_comes_from_its_journal(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        assert [alive.directory for alive in await live(tmp_path)] == [run.directory]
        await run.tell("one", Add(number=10))
    assert await live(tmp_path) == []
    found = await run_status(LocalRun(await meant(None, tmp_path)))
    assert (found["name"], found["state"], found["processes"]) == (
        run.directory.name,
        "finished",
        {},
    )


async def test_of_several_live_runs_one_must_be_named(tmp_path: Path) -> None:
    runs = [runtime.launch(adders(), directory=tmp_path, processes="one") for _ in range(2)]
    async with runs[0] as first, runs[1] as second:
        with pytest.raises(ConfigError, match=r"2 live runs in .*; say which"):
            await meant(None, tmp_path)
        assert await meant(Path(second.directory.name), tmp_path) == second.directory
        for run in (first, second):  # each run begins before either of them ends
            await run.ask("two", Add(number=1), Total)
        await asyncio.gather(*(run.tell("one", Add(number=10)) for run in (first, second)))


async def test_a_folder_that_is_not_a_run_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found no run there"):
        await meant(None, tmp_path)
    with pytest.raises(ConfigError, match=r"found no run\.json and no events\.jsonl in it"):
        await meant(tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="absent: found no such folder"):
        await meant(Path("absent"), tmp_path)


async def test_a_run_of_another_user_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "theirs").mkdir()
    # tests may run as root, which has every permission
    monkeypatch.setattr(Path, "exists", refused)
    with pytest.raises(ConvoyError, match="theirs is another user's"):
        await meant(tmp_path / "theirs", tmp_path)


def test_a_damaged_line_of_a_journal_is_reported_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ended() -> Path:
        async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
            await run.tell("one", Add(number=10))
        return run.directory

    directory = asyncio.run(ended())
    journal = directory / "events.jsonl"
    whole = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([whole[0], '{"t": 1, "act\n', "[]\n", *whole[1:]]))
    assert main(["events", str(directory), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "".join(whole)
    assert shown.err.count("a line of events.jsonl is damaged and left out: ") == 2

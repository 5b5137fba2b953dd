"""A client process in a run: it asks actors, sends messages, receives events, and never disturbs
the run."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

import runtime
from runtime import ActorStopped, ConfigError, ProgramFailed, Refused, attach
from runtime.cluster.clients import CLIENT
from runtime.runs.process_run import ProcessExecution
from tests.helpers.adders import Add, Break, Never, Total, adders
from tests.helpers.support import ROOT, environment

OUTSIDE = """
import asyncio, sys
from runtime import attach
from tests.helpers.adders import Add, Never, Total

async def main():
    async with attach(sys.argv[1]) as run:
        print((await run.ask("two", Add(number=3), Total)).total, flush=True)
        await run.tell("one", Add(number=2))
        async for event in run.events():
            if event.name == "added" and event.actor == "one":
                break
        print(event["number"], flush=True)
        await run.ask("one", Never(), Total)

asyncio.run(main())
"""


async def test_another_process_joins_and_its_death_does_not_disturb_the_run(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path) as run:
        command = [sys.executable, "-c", OUTSIDE, str(run.directory)]
        outside = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE
        )
        assert outside.stdout is not None
        assert [int(await outside.stdout.readline()) for _ in range(2)] == [103, 2]
        outside.send_signal(signal.SIGKILL)
        await outside.wait()
        assert (await run.ask("two", Add(number=1), Total)).total == 104
        async with attach(run.directory) as client:
            assert (await client.ask("one", Add(number=0), Total)).total == 2
        await run.tell("one", Add(number=10))
    assert await run.result() == {"total": 12}


async def test_nothing_is_kept_of_clients_that_have_left(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        for number in range(3):
            async with attach(run.directory) as client:
                assert (await client.ask("two", Add(number=1), Total)).total == 101 + number
        assert isinstance(run._house, ProcessExecution)
        house = run._house
        road = run._house._road
        while house._clients._clients:  # noqa: ASYNC110  # that a link is lost has no event of its own
            await asyncio.sleep(0)
        known = {
            *house._node.router._homes,
            *(source.peer for source in road._sources.values()),
            *road.queued_bytes(),
        }
        assert "one" in known
        assert not [name for name in known if name.startswith(CLIENT)]
        await run.tell("one", Add(number=10))


async def test_a_client_receives_the_events_and_the_end_and_is_refused_afterwards(
    tmp_path: Path,
) -> None:
    launched = runtime.launch(adders(), directory=tmp_path, processes="one")
    async with launched as run, attach(run.directory) as client:
        never = asyncio.create_task(client.ask("one", Never(), Total))
        await client.tell("one", Add(number=10))
        names = [event.name async for event in client.events() if event.actor == "one"]
        assert names == ["added", "sum"]
        with pytest.raises(ActorStopped, match="is over"):
            await never
        with pytest.raises(ActorStopped, match="is over"):
            await client.ask("one", Add(number=1), Total)
    with pytest.raises(ActorStopped, match=rf"the run in {run.directory} is over"):
        async with attach(run.directory):
            pass


async def test_the_cause_of_the_runs_end_is_sent_to_its_clients(tmp_path: Path) -> None:
    said = "one: there is nothing to add any more"
    with pytest.raises(ProgramFailed, match=said):
        launched = runtime.launch(adders(), directory=tmp_path, processes="one")
        async with launched as run, attach(run.directory) as client:
            await client.tell("one", Break())
            with pytest.raises(runtime.ConvoyError, match=said):
                async for _ in client.events():
                    pass


async def test_mistakes_of_a_client_are_reported_to_it_and_not_to_the_run(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=(r"plan\.json: found no such file; expected the " r"plan of a run")
    ):
        attach(tmp_path)
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        async with attach(run.directory) as client:
            with pytest.raises(
                ConfigError,
                match=(r"no actor of this run is called 'tow' " r"\(did you mean 'two'\?\)"),
            ):
                await client.ask("tow", Add(number=1), Total)
            with pytest.raises(
                Refused,
                match=r"^two refused Break\(\) of client-\d+-\d+: there is",
            ):
                await client.ask("two", Break(), Total)
            await client.tell("one", Add(number=10))
        assert await run.result() == {"total": 10}


@pytest.mark.parametrize(
    "plan", ['{"half', "[1]", '{"placement": 3}', '{"clock": "virtual", "placement": {}}']
)
def test_a_file_that_is_not_a_plan_or_of_another_kind_of_run_is_reported_in_words(
    tmp_path: Path, plan: str
) -> None:
    (tmp_path / "plan.json").write_text(plan)
    with pytest.raises(
        ConfigError, match=(r"plan\.json: .*; expected the plan of a run by " r"this version")
    ):
        attach(tmp_path)

"""Runs from Python scripts: launched, followed, changed and ended, in processes and on the script's
own loop."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import runtime
from runtime import ActorStopped, ConfigError, ConvoyError, ProgramFailed, RoleDied
from tests.helpers.adders import Add, Break, Never, Total, adders

PLACES = ("one-per-actor", "one", "here")


def launched(
    tmp_path: Path, topology: runtime.Topology | None = None, **settings: Any
) -> runtime.Run:
    """A run below the test's folder."""
    return runtime.launch(topology or adders(), directory=tmp_path, **settings)


@pytest.mark.parametrize("processes", PLACES)
async def test_a_run_is_talked_to_while_it_runs_and_sums_itself_up(
    tmp_path: Path, processes: Any
) -> None:
    names = []
    async with launched(tmp_path, processes=processes) as run:
        assert (await run.ask("one", Add(number=3), Total)).total == 3
        assert (await run.ask("one", Add(number=2), Total)).total == 5
        assert (await run.ask("two", Add(number=1), Total)).total == 101
        await run.save()
        await run.tell("one", Add(number=5))
        async for event in run.events():
            names.append((event.actor, event.name))
    assert await run.result() == {"total": 10}
    mine = [name for name in names if name[0] != "supervisor"]
    assert [name for actor, name in mine if actor == "one"] == [
        "added",
        "added",
        "saved",
        "added",
        "sum",
    ]
    journal = [
        json.loads(line) for line in (run.directory / "events.jsonl").read_text().splitlines()
    ]
    assert [(line["actor"], line["event"]) for line in journal] == [*names, ("supervisor", "ended")]
    assert (run.directory / "config.toml").is_file()


async def test_every_reader_gets_every_event_at_its_own_pace_and_late_readers_too(
    tmp_path: Path,
) -> None:
    async with launched(tmp_path, processes="here") as run:
        first = [event async for event in until(run, "began")]
        await run.tell("one", Add(number=10))
        both = await asyncio.gather(*(everything(run) for _ in range(2)))
    late = await everything(run)
    assert both[0] == both[1] == late
    assert first == late[: len(first)]
    assert [event.time for event in late] == sorted(event.time for event in late)
    assert late[-1]["total"] == 10
    assert str(late[-1]).split() == [f"{late[-1].time:.2f}", "one", "sum", "total", "10"]


async def until(run: runtime.Run, name: str) -> Any:
    async for event in run.events():
        yield event
        if event.name == name:
            return


async def everything(run: runtime.Run) -> list[runtime.Event]:
    return [event async for event in run.events()]


@pytest.mark.parametrize("processes", PLACES)
async def test_a_run_that_fails_raises_its_error_for_readers_of_events(
    tmp_path: Path, processes: Any
) -> None:
    async with launched(tmp_path, adders("broken"), processes=processes) as run:
        with pytest.raises(
            RoleDied,
            match=r"one .*failed: \S*adders\.py:\d+, in \w+: ValueError: no such number: 7",
        ):
            await everything(run)
        with pytest.raises(RoleDied, match="no such number: 7"):
            await run.result()
        with pytest.raises(RoleDied, match="no such number: 7"):
            await run.tell("two", Add(number=1))
    assert (await everything_but_the_error(run))[-1].name == "failed"


async def everything_but_the_error(run: runtime.Run) -> list[runtime.Event]:
    found = []
    with pytest.raises(RoleDied):
        async for event in run.events():
            found.append(event)  # events before the error count
    return found


@pytest.mark.parametrize("processes", PLACES)
async def test_leaving_the_block_waits_for_the_end_and_raises_its_error(
    tmp_path: Path, processes: Any
) -> None:
    with pytest.raises(ProgramFailed, match="one: there is nothing to add any more"):
        async with launched(tmp_path, processes=processes) as run:
            await run.tell("one", Break())
    async with launched(tmp_path, processes=processes) as run:
        await run.ask("two", Add(number=1), Total)
        await run.wind_down("the script has seen enough")
    assert [event["reason"] for event in await everything(run) if event.name == "winding down"] == [
        "the script has seen enough"
    ]


@pytest.mark.parametrize("processes", PLACES)
async def test_an_exception_in_the_block_ends_the_run_at_once(
    tmp_path: Path, processes: Any
) -> None:
    with pytest.raises(KeyError):
        async with launched(tmp_path, processes=processes) as run:
            await run.ask("one", Add(number=1), Total)
            raise KeyError("mine")
    assert await run.ended() is None
    with pytest.raises(ActorStopped, match="the run is over"):
        await run.tell("one", Add(number=1))
    await run.wind_down()  # too late, but not an error


@pytest.mark.parametrize("processes", PLACES)
async def test_a_caller_that_waits_for_an_answer_gets_the_end_of_the_run_as_an_error(
    tmp_path: Path, processes: Any
) -> None:
    async with launched(tmp_path, processes=processes) as run:
        asked = asyncio.create_task(run.ask("one", Never(), Total))
        await run.ask("one", Add(number=1), Total)
        with pytest.raises(ProgramFailed, match="nothing to add"):
            await asyncio.gather(run.tell("one", Break()), asked)


@pytest.mark.few("[2-one-per-actor]", "here]")
@pytest.mark.parametrize("processes", PLACES)
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_a_script_that_is_cancelled_leaves_nothing_behind(
    tmp_path: Path, processes: Any, turns: int
) -> None:
    async def script() -> None:
        async with launched(tmp_path, processes=processes):
            await asyncio.Event().wait()

    task = asyncio.create_task(script())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_only_actors_of_the_run_are_talked_to(tmp_path: Path) -> None:
    async with launched(tmp_path, processes="here") as run:
        with pytest.raises(ConfigError) as caught:
            await run.tell("tow", Add(number=1))
        await run.end_now()
    assert caught.value.problems == ["no actor of this run is called 'tow' (did you mean 'two'?)"]


async def test_a_run_is_used_after_its_start_and_started_once(tmp_path: Path) -> None:
    run = launched(tmp_path, processes="here")
    assert repr(run) == "<run of 2 actors, not started>"
    with pytest.raises(ConvoyError, match="was not started"):
        await run.tell("one", Add(number=1))
    assert await run.start() is run
    with pytest.raises(ConvoyError, match="was started before"):
        await run.start()
    await run.tell("one", Add(number=10))
    assert await run.result() == {"total": 10}
    assert repr(run) == "<run of 2 actors, over>"


@pytest.mark.parametrize("processes", ["one", "here"])
def test_a_role_that_the_program_lacks_is_reported_with_those_it_has(
    tmp_path: Path, processes: Any
) -> None:
    topology = runtime.Topology(
        "tests.helpers.adders", (runtime.ActorSpec("one", "ader"),), (), "one"
    )
    expected = r"actor 'one': the program has no role 'ader' \(did you mean 'adder'\?\); its roles are adder, broken$"
    with pytest.raises(ConfigError, match=expected):
        launched(tmp_path, topology, processes=processes)


def test_mistakes_in_the_settings_of_a_script_are_reported_with_their_keys(tmp_path: Path) -> None:
    machines = [{"name": "a", "cores": 0}, {"name": "a"}]
    with pytest.raises(ConfigError) as caught:
        launched(
            tmp_path,
            machine=machines,
            links={"transport": "tpc"},
            process=({"name": "p", "actors": ("x",)},),
        )
    assert sorted(caught.value.problems) == [
        (
            "launch(): links.transport: found 'tpc' (string), expected 'auto' or 'ipc' or 'tcp' "
            "(did you mean 'tcp'?)"
        ),
        "launch(): machine[0].cores: found 0 (integer), expected an integer >= 1",
        "launch(): machine[1].name: a machine named 'a' exists already (launch())",
        "launch(): process[0].machine: no machine is named 'local' (allowed: a)",
    ]
    with pytest.raises(ConfigError) as caught:
        launched(tmp_path, metric={}, run={"name": "x"})
    assert caught.value.problems[0] == "launch(): metric: unknown key (did you mean 'metrics'?)"
    assert caught.value.problems[1].startswith("launch(): run: unknown key (allowed: ")
    with pytest.raises(
        ConfigError, match=(r"launch\(\): process\[0\]\.actors: no actor left " r"matches \['x'\]")
    ):
        launched(tmp_path, process=[{"name": "p", "actors": ["x"]}])


def test_a_script_places_actors_as_cluster_toml_does(tmp_path: Path) -> None:
    run = launched(
        tmp_path,
        machine=[{"name": "m", "threads": 3}],
        process=[{"name": "p", "machine": "m", "actors": ["t*"]}],
    )
    assert [
        (spec.name, spec.machine, spec.actors, spec.threads) for spec in run.placement.processes
    ] == [
        ("p", "m", ("two",), 3),
        ("one", "m", ("one",), 3),
    ]


def test_run_returns_the_result_and_calls_back_with_every_event(tmp_path: Path) -> None:
    seen: list[str] = []
    topology = runtime.Topology(
        "tests.helpers.adders", (runtime.ActorSpec("one", "broken"),), (), "one"
    )
    with pytest.raises(RoleDied, match="no such number"):
        runtime.run(
            topology,
            on_event=lambda event: seen.append(event.name),
            directory=tmp_path,
            processes="here",
        )
    assert seen == ["began", "failed"]
    with pytest.raises(ZeroDivisionError):  # an error in the script ends the run
        runtime.run(adders(), on_event=lambda event: 1 // 0, directory=tmp_path, processes="one")


@pytest.mark.parametrize("processes", ["one", "here"])
async def test_the_activity_of_each_actor_is_known_while_it_runs(
    tmp_path: Path, processes: Any
) -> None:
    async with launched(tmp_path, processes=processes, liveness={"heartbeat_seconds": 0.05}) as run:
        while run.statuses().get("one", {}).get("handled", 0) < 2:
            await run.ask("one", Add(number=0), Total)
        found = run.statuses()
        await run.tell("one", Add(number=10))
    assert set(found) == {"one", "two"}
    assert found["one"]["process"] == run.placement.processes[0].name
    assert found["two"]["role"] == "adder"
    assert found["two"]["handled"] == 0


async def test_a_list_of_metrics_pages_is_served_while_actors_live_in_processes(
    tmp_path: Path,
) -> None:
    async with launched(tmp_path, processes="one") as run:
        await run.ask("one", Add(number=1), Total)
        listed = json.loads(await asyncio.to_thread(read, run.metrics_url))
        await run.tell("one", Add(number=10))
    assert [entry["labels"]["process"] for entry in listed] == ["up", "convoy"]


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: str = answer.read().decode()
        return body


async def test_run_explains_what_to_do_if_an_event_loop_runs_already() -> None:
    with pytest.raises(
        ConvoyError,
        match=(r"an event loop runs here, as in a notebook: use `async with " r"runtime\.launch"),
    ):
        runtime.run(adders())


def test_a_run_is_shown_as_up_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = runtime.Topology(
        "tests.helpers.adders",
        (runtime.ActorSpec("one", "adder", {"until": 0}),),
        (),
        "one",
        facts=("a setting that follows",),
    )

    async def main() -> None:
        async with launched(tmp_path, topology, processes="here", show=True) as run:
            await run.tell("one", Add(number=1))

    asyncio.run(main())
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["a", "setting", "that", "follows"],
        ["began", "processes", "0"],
        ["added", "number", "1"],
        ["sum", "total", "1"],
    ]

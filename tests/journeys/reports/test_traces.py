"""Traces of runs in processes, on one loop and on virtual time: their format, and the part that
remains after a death."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

import roles
import runtime
from runtime.attached.attach import attach
from runtime.cli.main import main
from runtime.errors import RoleDied
from runtime.plan.topology import Topology
from runtime.tracing.merging import part_of
from tests.helpers.chrome_trace import check, closed, cut
from tests.helpers.support import configure, run_directory, run_up
from tests.helpers.watched import Hello, pause, watched

PATIENT = {"missed": 400}


def training(iterations: int) -> Topology:
    strategy = {"preset": "omnivore", "workers": 2}
    return roles.training(
        {"net": "lenet", "max_iter": iterations, "kernels": "numpy", "strategy": strategy}
    )


async def test_a_live_run_is_traced_from_start_to_stop_and_the_file_has_the_right_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(watched(), directory=tmp_path, liveness=PATIENT) as run:
        await run.ask("deaf", Hello(), Hello)
        assert await asyncio.to_thread(main, ["trace", "stop", str(run.directory)]) == 1
        assert "is not being traced: `trace start` begins that" in capsys.readouterr().err
        assert await asyncio.to_thread(main, ["trace", "start", str(run.directory)]) == 0
        assert capsys.readouterr().out == "tracing 5 processes until `trace stop`\n"
        assert await asyncio.to_thread(main, ["trace", "start", str(run.directory)]) == 1
        assert "is being traced: `trace stop` ends that" in capsys.readouterr().err
        await written(part_of(run.directory, "busy", 1), b"grind")
        assert await asyncio.to_thread(main, ["trace", "stop", str(run.directory)]) == 0
        path = run.directory / "trace.json"
        assert str(path) in capsys.readouterr().out
        events = closed(path)
        check(events)
        spans = [event for event in events if event["ph"] == "X"]
        assert {(span["args"]["actor"], span["cat"]) for span in spans} >= {
            ("busy", "compute"),
            ("busy", "wait"),
            ("busy", "send"),
            ("deaf", "handle"),
            ("deaf", "send"),
        }
        # the first began before the trace
        _, *grinding = [span for span in spans if span["name"] == "grind"]
        assert all(span["dur"] >= 0.9 * 20_000 for span in grinding), "microseconds"
        numbers = [span["args"]["iteration"] for span in grinding]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        text = path.read_text()
        for share in (0.3, 0.6, 0.9):
            assert cut(text[: int(len(text) * share)])
        assert not list((run.directory / "trace").iterdir()), "parts are removed"
        await run.wind_down()


async def written(path: Path, what: bytes) -> None:
    """Wait until a process has written these bytes."""

    def look() -> None:
        for _ in range(3000):
            if path.exists() and what in path.read_bytes():
                return
            pause.wait(0.01)
        raise AssertionError(f"{path} has no {what!r}")

    await asyncio.to_thread(look)


async def test_the_trace_of_a_killed_process_has_everything_that_it_had_written(
    tmp_path: Path,
) -> None:
    run = await runtime.launch(watched(), directory=tmp_path).start()
    async with attach(run.directory) as client:
        await client.begin_trace()
        await written(part_of(run.directory, "busy", 1), b'"grind"')
        os.kill((await client.status()).processes["busy"]["pid"], signal.SIGKILL)
    error = await run.ended()
    assert isinstance(error, RoleDied)
    events = closed(run.directory / "trace.json")
    check(events)
    assert any(event["name"] == "grind" for event in events)
    assert any(event["ph"] == "f" for event in events)


def test_on_virtual_time_the_first_iterations_are_traced_in_virtual_microseconds(
    tmp_path: Path,
) -> None:
    cluster = configure(
        tmp_path,
        "omnivore",
        workers=2,
        iterations=6,
        more=('[simulation]\nclock = "virtual"\nlatency = 0.25\n'),
    )
    settings = (f"run.directory={tmp_path / 'runs'}", "run.trace=2", "train.kernels=numpy")
    assert (
        main(["up", str(cluster), *(word for setting in settings for word in ("--set", setting))])
        == 0
    )
    events = closed(run_directory(cluster) / "trace.json")
    check(events)
    waits = [event for event in events if event["cat" if "cat" in event else "ph"] == "wait"]
    assert min(event["dur"] for event in waits) >= 500_000, "an answer must take two latencies"
    iterations = {event["args"].get("iteration") for event in events if event["ph"] == "X"}
    assert {0, 1} <= iterations and iterations.isdisjoint({4, 5}), (
        "two iterations, and those in progress at their end"
    )


@pytest.mark.slow
def test_a_training_run_is_traced_from_its_first_iteration_by_a_key(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=3, iterations=200, more="[run]\ntrace = 3\n")
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\ntrace ") == 1
    events = closed(run_directory(cluster) / "trace.json")
    check(events)
    computed = Counter(event["args"]["actor"] for event in events if event.get("cat") == "compute")
    assert computed.keys() >= {
        "conv-0-0",
        "conv-0-1",
        "conv-0-2",
        "conv_model",
        "fc_server",
        "reducer-0",
    }
    begins = {
        kind: {
            event["args"]["iteration"]: event["ts"]
            for event in events
            if event["name"] == f"{kind} conv1" and event["args"]["actor"] == "conv-0-0"
        }
        for kind in ("forward", "backward")
    }
    both = begins["forward"].keys() & begins["backward"].keys()
    assert {0, 1, 2} <= both and all(
        begins["forward"][number] < begins["backward"][number] for number in both
    )
    arrived = [event for event in events if event["ph"] == "X" and event["name"] == "LayerGradient"]
    workers = {"conv-0-0", "conv-0-1", "conv-0-2"}
    assert {event["args"]["peer"] for event in arrived} >= workers | {"reducer-0", "conv_model"}
    assert {0, 1, 2} <= {event["args"]["iteration"] for event in arrived}


@pytest.mark.slow
async def test_a_stopped_process_is_named_and_the_others_are_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        runtime.launch(watched(), directory=tmp_path, liveness=PATIENT) as run,
        attach(run.directory) as client,
    ):
        await client.begin_trace()
        await written(part_of(run.directory, "busy", 1), b'"grind"')
        pid = (await client.status()).processes["lead"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            told = await client.end_trace()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert told[1] == "not traced to its end: lead: no answer within 2 s"
        check(closed(run.directory / "trace.json"))
        await run.wind_down()

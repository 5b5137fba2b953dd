"""`--connect`: commands that talk to a live run from another machine, and the connections that the
run refuses."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import runtime
from benchmarks.helpers.strangers import STRANGERS, Door, Recorder, recording
from runtime import Run
from runtime.attached.observed_run import RemoteRun
from runtime.cli.main import main
from runtime.cluster.clients import Attach
from runtime.cluster.operators.operator_key import FILE, LIMITS, OPERATOR, OperatorKey
from runtime.cluster.operators.operator_messages import FilePart, FilesFound, FindFiles, ReadFile
from runtime.cluster.operators.operator_server import answer
from runtime.config.file import load
from runtime.errors import ConfigError, ConvoyError
from runtime.messages.message import Envelope, Refusal
from runtime.transport import Endpoints
from runtime.transport.dialed import Dialing
from tests.helpers.adders import Add, Total, adders
from tests.helpers.chrome_trace import closed
from tests.helpers.support import environment, runtime_command
from tests.helpers.watched import Hello, Line, watched

OPEN = {"address": "127.0.0.1"}
PATIENT = {"missed": 400, "standstill_seconds": 600.0}
FLOOD = 200  # connections at once


@asynccontextmanager
async def live(folder: Path) -> AsyncIterator[tuple[Run, Path]]:
    """A run, and an operator's copy of its key."""
    async with runtime.launch(
        watched(), directory=folder, processes="one", liveness=PATIENT, operators=OPEN
    ) as run:
        await run.ask("deaf", Hello(), Hello)
        yield run, copied(run.directory, folder)
        await run.end_now()


def copied(directory: Path, folder: Path) -> Path:
    """Copy the key as an operator does, under any name."""
    copy = folder / "mine.key"
    copy.write_bytes((directory / FILE).read_bytes())
    copy.chmod(0o600)
    return copy


async def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    code = await asyncio.to_thread(main, list(map(str, words)))
    told = capsys.readouterr()
    return code, told.out + told.err


async def test_every_command_that_shows_a_run_works_from_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path / "runs") as (run, key):
        (elsewhere := tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(elsewhere)
        code, out = await said(capsys, "status", "--json", "--connect", key)
        near = await said(capsys, "status", run.directory, "--json")
        found = json.loads(out)
        expected = json.loads(near[1])
        assert code == 0 and found["processes"].keys() == expected["processes"].keys()
        for name in ("name", "directory", "state", "program", "since", "checkpoint"):
            assert found[name] == pytest.approx(expected[name]), name
        code, out = await said(capsys, "ps", "--connect", key)
        assert code == 0 and out.startswith(run.directory.name) and " running " in out
        code, out = await said(capsys, "top", "--json", "--connect", key)
        assert code == 0 and {row["actor"] for row in json.loads(out)["actors"]} >= {
            "busy",
            "asker",
        }
        code, out = await said(capsys, "stack", "asker", "--connect", key)
        assert (
            code == 0 and "asker: waits for deaf (Unanswered) for " in out and "in _lifeline" in out
        )
        await run.ask("deaf", Line(text="far and wide"), Hello)
        code, out = await said(capsys, "logs", "--connect", key)
        assert code == 0 and "far and wide" in out
        code, out = await said(capsys, "events", "--json", "--connect", key)
        assert (code, out) == (0, (run.directory / "events.jsonl").read_text())
        code, out = await said(capsys, "trace", "start", "--connect", key)
        assert (code, out) == (0, "tracing 1 process until `trace stop`\n")
        code, out = await said(capsys, "trace", "stop", "--connect", key)
        assert code == 0 and f"copied here: {run.directory.name}-trace.json" in out
        here = elsewhere / f"{run.directory.name}-trace.json"
        assert here.read_bytes() == (run.directory / "trace.json").read_bytes() and closed(here)
        assert [path.name for path in elsewhere.iterdir()] == [here.name]


async def test_a_run_is_followed_from_another_machine_to_its_last_event_and_ended_from_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        key = copied(run.directory, tmp_path)
        await run.ask("one", Add(number=3), Total)
        words = runtime_command("events", "-f", "--json", "--connect", str(key))
        following = await asyncio.create_subprocess_exec(
            *words, env=environment(), stdout=asyncio.subprocess.PIPE
        )
        assert following.stdout is not None
        heard = b""
        while b"added" not in heard:
            heard += await following.stdout.readline()
        code, out = await said(capsys, "down", "--connect", key)
        assert (code, out) == (0, f"{run.directory.name} has ended; last checkpoint: none\n")
        heard += await following.stdout.read()
        assert await following.wait() == 0
    assert await run.ended() is None and run.asked_to_end
    journal = (run.directory / "events.jsonl").read_text().splitlines()
    names = [json.loads(line)["event"] for line in journal]
    told = heard.decode().splitlines()
    assert told == journal[: len(told)] and names[len(told) - 1 :] in (["sum", "ended"], ["ended"])
    assert not (run.directory / FILE).exists()
    code, out = await said(capsys, "status", "--connect", key)
    assert (
        code == 1 and "no run can be reached at 127.0.0.1:" in out and "Connection refused" in out
    )


@pytest.mark.parametrize("kind", STRANGERS)
async def test_without_the_key_a_connection_learns_and_does_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        await run.ask("one", Add(number=1), Total)
        card = OperatorKey.read(run.directory / FILE)
        host, _, port = card.address.rpartition(":")
        wanted = Envelope(Attach(control=(), bulk=(), host=""), 1, "client-x", 1, "supervisor")
        door = Door(host, int(port), card.up, f"{OPERATOR}/client-x".encode(), wanted)
        with recording(host, int(port)) as recorder:
            async with RemoteRun(card.at(f"127.0.0.1:{recorder.port}")) as seen:
                assert seen.name == run.directory.name
            door.recorded = recorder.sent
        assert len(door.recorded) > 500
        assert not await asyncio.to_thread(STRANGERS[kind], door)
        async with RemoteRun(card) as seen, seen.client() as client:
            assert (await client.status()).processes
        for held in door.held:
            held.close()
        await run.end_now()


async def test_a_flood_of_strangers_keeps_no_operator_out(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        await run.ask("one", Add(number=1), Total)
        card = OperatorKey.read(run.directory / FILE)
        host, _, port = card.address.rpartition(":")
        flood = [socket.create_connection((host, int(port)), 5) for _ in range(FLOOD)]
        try:
            for number, each in enumerate(flood):
                each.sendall(os.urandom(2000) if number % 2 else b"\xff")
            async with asyncio.timeout(60), RemoteRun(card) as seen, seen.client() as client:
                assert (await client.status()).processes
            assert (await run.ask("one", Add(number=1), Total, timeout=60)).total == 2
        finally:
            for each in flood:
                each.close()
        await run.end_now()


async def test_a_wrong_key_and_a_key_of_a_run_that_is_over_are_reported_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with runtime.launch(
        adders(), directory=tmp_path, processes="one", operators=OPEN
    ) as first:
        await first.ask("one", Add(number=1), Total)
        old = copied(first.directory, tmp_path)
        await first.end_now()
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        await run.ask("one", Add(number=1), Total)
        address = OperatorKey.read(run.directory / FILE).address
        code, out = await said(capsys, "status", "--connect", address, "--key", old)
        assert code == 1 and (f"{address} does not admit this key") in out and out.count("\n") == 1
        code, out = await said(
            capsys, "status", "--connect", address, "--key", run.directory / FILE
        )
        assert code == 0 and out.startswith(run.directory.name)
        code, out = await said(capsys, "status", run.directory, "--connect", address)
        assert code == 2 and "found a run in addition to --connect" in out
        await run.end_now()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file or directory: expected a copy of operator.key of the run's directory"),
        ("", "expected a copy of operator.key of the run's directory, found something else"),
        ("[1, 2]", "found something else"),
        ('{"address": "here", "up": "", "public": "", "private": ""}', "found something else"),
    ],
)
async def test_a_file_that_is_not_a_key_is_reported_without_its_text(
    text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.key"
    if text is not None:
        path.write_text(text)
        path.chmod(0o600)
    code, out = await said(capsys, "ps", "--connect", path)
    assert code == 2 and f"{path}: " in out and told in out and out.count("\n") == 1


async def test_the_key_is_readable_by_its_user_alone_and_stored_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path) as (run, key):
        path = run.directory / FILE
        card = OperatorKey.read(key)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        secrets = (card.private.hex().encode(), card.private)
        pids = [
            json.loads(line)["pid"]
            for line in (run.directory / "events.jsonl").read_text().splitlines()
            if '"pid"' in line
        ]
        places = [
            Path(f"/proc/{pid}") / name
            for pid in (*pids, os.getpid())
            for name in ("cmdline", "environ")
        ]
        places += [each for each in run.directory.rglob("*") if each.is_file() and each != path]
        assert len(places) > 6
        assert not [
            each for each in places if any(secret in each.read_bytes() for secret in secrets)
        ]
        assert card.private.hex() not in repr(card) and repr(card.private) not in repr(card)
        key.chmod(0o644)
        code, out = await said(capsys, "ps", "--connect", key)
        assert code == 2 and f"{key}: others may read it (mode 644): chmod 600" in out


async def test_the_owner_of_the_key_can_speak_only_as_a_client(tmp_path: Path) -> None:
    """With the key, a client cannot speak as a process of the run. It cannot reach an actor before
    it has joined either."""
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        card = OperatorKey.read(run.directory / FILE)
        for name, said_there in (("one", Hello()), ("client-x", Add(number=1))):
            gone = asyncio.Event()
            road = Dialing(
                name, lambda *came: None, lambda *why: None, LIMITS, user=OPERATOR, keys=card.keys,
                on_link_lost=gone.set,
            )  # fmt: skip
            await road.open()
            road.connect(
                "supervisor", Endpoints((f"curve://{card.address}",), (f"curve://{card.address}",))
            )
            await road.send("supervisor", Envelope(said_there, 1, name, 1, "one"))
            async with asyncio.timeout(60):
                await gone.wait()
            await road.close()
        assert (await run.ask("one", Add(number=2), Total)).total == 2
        await run.end_now()


def test_only_the_files_of_a_run_that_commands_need_can_be_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs").mkdir()
    for name in (
        "events.jsonl",
        "logs/one.log",
        "logs/one.stacks",
        FILE,
        "checkpoint-0000001.safetensors",
    ):
        (tmp_path / name).write_text("secret")
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / FILE)
    found = answer(
        tmp_path, FindFiles(patterns=("events.jsonl", "logs/*.log", "logs/*.stacks", "*", FILE))
    )
    assert isinstance(found, FilesFound)
    assert json.loads(found.files.tobytes()).keys() == {
        "events.jsonl",
        "logs/one.log",
        "logs/one.stacks",
    }
    part = answer(tmp_path, ReadFile(path="logs/one.log", offset=3))
    assert isinstance(part, FilePart) and part.data.tobytes() == b"ret"
    closed_to_all = (
        FILE,
        "logs/link.log",
        "logs/../operator.key",
        f"{tmp_path}/events.jsonl",
        "checkpoint-0000001.safetensors",
        "",
        "logs/\0.log",
        "runs/logs/one.log",
    )
    for path in closed_to_all:
        refused = answer(tmp_path, ReadFile(path=path, offset=0))
        assert (
            isinstance(refused, Refusal)
            and "is not a file that operators may read" in refused.error
        ), path
    assert isinstance(answer(tmp_path, ReadFile(path="events.jsonl", offset=1 << 63)), Refusal)


async def test_a_connection_that_breaks_is_not_taken_for_the_end_of_the_run(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one", operators=OPEN) as run:
        await run.ask("one", Add(number=1), Total)
        card = OperatorKey.read(run.directory / FILE)
        host, _, port = card.address.rpartition(":")
        cable = Recorder(host, int(port))
        async with RemoteRun(card.at(f"127.0.0.1:{cable.port}")) as seen, seen.client() as client:
            assert await seen.lives()
            await asyncio.to_thread(cable.close)
            with pytest.raises(
                ConvoyError,
                match=(rf"^the connection to the run " rf"{client.called} broke; it may go on$"),
            ):
                async with asyncio.timeout(60):
                    assert [event.name async for event in client.events()] == []
            with pytest.raises(ConvoyError, match=r"broke; the run .* may go on"):
                await seen.lives()
        await run.end_now()


async def test_nothing_listens_for_operators_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with runtime.launch(adders(), directory=tmp_path, processes="one") as run:
        await run.ask("one", Add(number=1), Total)
        assert run.operators_at == "" and not (run.directory / FILE).exists()
        await run.end_now()


def test_an_unreachable_or_invalid_address_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('[operators]\naddress = "0.0.0.0"\n')
    with pytest.raises(
        ConfigError, match=(r"operators.address: found '0.0.0.0' .*others " r"cannot reach it")
    ):
        load(tmp_path / "cluster.toml")

"""A real Prometheus with live runs: every query of every board and rule finds something, and an end
is distinguished from a death."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from roles.messages import Done, PassDone
from runtime.attached.attach import Client
from runtime.errors import Refused
from tests.helpers.ports import free_ports
from tests.helpers.prometheus_server import PrometheusServer, boards, selectors
from tests.helpers.support import configure, environment, events, run_directory, runtime_command

pytestmark = pytest.mark.slow

# a healthy run does not have these metrics; the second run, in which something fails, has them
ON_FAILURE = ("convoy_run_outcome_info", "convoy_messages_rejected_total")
# known only after enough gradients, when the noise is larger than its error
LATE = ("convoy_gradient_noise_images",)

# of the preset islands only
ISLANDS = ("convoy_exchanges_total", "convoy_gains_together", "convoy_outer_steps_total")

PATIENCE = 40.0  # seconds; the tests need a fifth of it


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with (
        free_ports(2) as port,
        PrometheusServer(tmp_path_factory.mktemp("monitored"), port) as server,
    ):
        yield server


@contextmanager
def up(
    folder: Path, server: PrometheusServer, preset: str, where: str = "", **shape: int
) -> Iterator[subprocess.Popen[str]]:
    """A live run that has begun. `where`: the key by which the server finds it."""
    configure(folder, preset, iterations=1_000_000, batch=8, test=True, paced=True, **shape)
    setting = where or f"metrics.port={server.port}"
    command = runtime_command("up", "cluster.toml", "--set", setting)
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("progress"):
                    break
            yield process
        finally:
            process.kill()


def until(happened: Callable[[], object], lines: Iterable[str] = ()) -> None:
    """Wait until `happened`. Looks at each line of the run, and repeatedly once the run is over."""
    last = asked = monotonic()
    for _ in lines:
        if monotonic() - asked > 0.5:
            asked = monotonic()
            if happened() or asked - last > PATIENCE:
                break
    while not happened():
        assert monotonic() - last < PATIENCE


def test_every_query_finds_something_and_a_good_end_leaves_nothing_down(
    tmp_path: Path, prometheus: PrometheusServer
) -> None:
    asked = {
        query.expression
        for board in boards().BOARDS
        for panel in board.panels
        for query in panel.queries
    }
    left_out = (*ON_FAILURE, *LATE, *ISLANDS)
    waiting = {text for text in asked if not any(name in text for name in left_out)}
    read: set[str] = set()

    def all_found() -> bool:
        if not read and prometheus.rules():
            read.update(*(selectors(rule["query"]) for rule in prometheus.rules()))
            read.update(rule["name"] for rule in prometheus.rules() if rule["type"] == "recording")
            waiting.update(name for name in read if not name.startswith(ON_FAILURE))
        run = run_directory(tmp_path / "cluster.toml").name
        for text in sorted(waiting):
            if prometheus.query(text.replace("$run", run).replace("$__rate_interval", "10s")):
                waiting.discard(text)
        return bool(read) and not waiting

    with up(tmp_path, prometheus, "omnivore", workers=4, groups=2) as process:
        assert process.stdout is not None
        try:
            until(all_found, process.stdout)
        except AssertionError:
            raise AssertionError(f"these find nothing: {sorted(waiting)}") from None
        assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
    (ended,) = prometheus.query('last_over_time(convoy_run_outcome_info{cause="asked"}[5m])')
    assert (ended["metric"]["outcome"], ended["metric"]["by"]) == ("finished", "SIGINT")
    until(lambda: prometheus.targets() == [])  # Prometheus reads changes of the list every 5 s
    assert "ConvoyProcessDown" not in prometheus.alerts()


def test_every_query_about_islands_finds_something_in_a_run_of_islands(
    tmp_path: Path, prometheus: PrometheusServer
) -> None:
    waiting = {
        query.expression
        for board in boards().BOARDS
        for panel in board.panels
        for query in panel.queries
        if any(name in query.expression for name in ISLANDS)
    }
    assert len(waiting) == len(ISLANDS)

    def all_found() -> bool:
        run = run_directory(tmp_path / "cluster.toml").name
        for text in sorted(waiting):
            if prometheus.query(text.replace("$run", run).replace("$__rate_interval", "10s")):
                waiting.discard(text)
        return not waiting

    with up(tmp_path, prometheus, "islands", workers=2) as process:
        assert process.stdout is not None
        until(all_found, process.stdout)
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_a_killed_process_is_reported_by_name_and_rejections_are_counted(
    tmp_path: Path, prometheus: PrometheusServer
) -> None:
    with up(tmp_path, prometheus, "sync", workers=2) as process:
        directory = run_directory(tmp_path / "cluster.toml")
        asyncio.run(_illegal(directory))
        assert process.stdout is not None
        until(lambda: "ConvoyMessagesRejected" in prometheus.alerts(), process.stdout)
        rejected = prometheus.alerts()["ConvoyMessagesRejected"]
        assert (rejected["process"], rejected["reason"]) == ("coordinator", "illegal")
        # the end does not wait for a reader that came only once
        twice = f'count_over_time(up{{process="up", run="{directory.name}"}}[1m]) >= 2'
        until(lambda: prometheus.query(twice), process.stdout)
        pids = {event["process"]: event["pid"] for event in events(directory, "process")}
        os.kill(pids["conv-0-1"], signal.SIGKILL)
        process.stdout.read()
    assert process.returncode == 4
    until(lambda: "ConvoyProcessDied" in prometheus.alerts())
    died = prometheus.alerts()["ConvoyProcessDied"]
    assert (died["by"], died["run"], died["process"]) == ("conv-0-1", directory.name, "up")
    until(lambda: prometheus.targets() == [])  # Prometheus reads changes of the list every 5 s


async def _illegal(directory: Path) -> None:
    """Send the report of a pass that no worker had."""
    async with Client(directory, 10.0) as client:
        with pytest.raises(Refused):
            report = PassDone(members=1, phase="TRAIN", number=10**9, rows=1, scores={})
            await client.ask("coordinator", report, Done)


def test_a_prometheus_finds_all_runs_by_their_files_and_only_a_killed_one_is_down(
    tmp_path: Path,
) -> None:
    targets = tmp_path / "targets"
    where = f"metrics.targets={targets}"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with free_ports(2) as port, PrometheusServer(tmp_path, port, targets) as server:
        with (
            up(tmp_path / "a", server, "single", where) as well,
            up(tmp_path / "b", server, "single", where) as killed,
        ):
            a, b = (run_directory(tmp_path / name / "cluster.toml").name for name in ("a", "b"))
            until(lambda: server.runs() == {a, b})
            up_now = 'count by (run) (up{job="convoy"} == 1)'
            until(lambda: len(server.query(up_now)) == 2)
            well.send_signal(signal.SIGINT)
            well.communicate()
            killed.kill()
            killed.communicate()
        until(lambda: server.runs() == {b})  # Prometheus applies changes of files every 5 s
        until(lambda: "ConvoyProcessDown" in server.alerts())
        assert server.alerts()["ConvoyProcessDown"]["run"] == b
        (left,) = targets.glob("*.json")
        assert left.name.startswith(f"{b}.")

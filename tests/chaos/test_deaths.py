"""Any death of a process: the process is named, all others stop, and no process or socket is left
behind.

CONVOY_KILLS sets how often each role kind is killed (1 by default; the release figure is 5).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.running import GONE_WITHIN, NAMED_WITHIN, Running
from tests.helpers.support import configure, events, parent_of, run_directory, run_up

KILLS = int(os.environ.get("CONVOY_KILLS", "1"))
VICTIMS = ["conv-0-1", "conv_model", "fc_server", "reducer-0", "coordinator"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    # three workers are the fewest with a reducer
    cluster = configure(tmp_path, "sync", workers=3, iterations=100_000, batch=8)
    run = Running(cluster, lambda line: line.startswith("progress") and " 20/" in line)
    yield run
    run.end()


@pytest.mark.few("[coordinator]")
@pytest.mark.parametrize("victim", [victim for victim in VICTIMS for _ in range(KILLS)])
def test_a_killed_role_is_named_and_everything_else_stops(running: Running, victim: str) -> None:
    os.kill(running.pids[victim], signal.SIGKILL)
    killed = time.monotonic()
    line = running.named()
    assert time.monotonic() - killed <= NAMED_WITHIN
    found = re.match(r"process (\S+) \((.*)\) on local \(\S+, pid (\d+)\) killed by SIGKILL", line)
    assert found is not None, line
    assert (found[1], int(found[3])) == (victim, running.pids[victim])
    code, said = running.finish(GONE_WITHIN)
    assert time.monotonic() - killed <= GONE_WITHIN
    assert code == 4
    assert "Traceback" not in said
    assert running.left() == []
    assert running.sockets() == []


def test_a_stopped_role_is_named_by_its_silence(running: Running) -> None:
    os.kill(running.pids["conv_model"], signal.SIGSTOP)
    stopped = time.monotonic()
    line = running.named()
    named = time.monotonic()
    assert named - stopped <= NAMED_WITHIN
    assert re.match(r"process conv_model .* sent no heartbeat for \d\.\d s", line), line
    code, _ = running.finish(GONE_WITHIN + 1)
    assert time.monotonic() - named <= GONE_WITHIN
    assert code == 4
    assert running.left() == []
    assert running.sockets() == []


def test_a_killed_nursery_ends_the_run_and_its_children_with_it(running: Running) -> None:
    nursery = parent_of(running.pids["conv_model"])
    os.kill(nursery, signal.SIGKILL)
    assert re.match(
        (r"process \S+ .* is lost: the process it was forked from was " r"killed"), running.named()
    )
    code, _ = running.finish(GONE_WITHIN + 1)
    assert code == 4
    deadline = time.monotonic() + GONE_WITHIN
    while running.left() and time.monotonic() < deadline:
        os.sched_yield()
    assert running.left() == []
    assert running.sockets() == []


@pytest.mark.slow
def test_a_launcher_killed_outright_leaves_no_process_and_no_socket(running: Running) -> None:
    os.kill(running.process.pid, signal.SIGKILL)
    running.finish(GONE_WITHIN)
    deadline = time.monotonic() + GONE_WITHIN
    while running.left() and time.monotonic() < deadline:
        os.sched_yield()
    assert running.left() == []
    assert running.sockets() == []


@pytest.mark.few("[15-143]")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_finishes_saves_and_stops(
    running: Running, number: signal.Signals, code: int
) -> None:
    os.kill(running.process.pid, number)
    found, said = running.finish(10)
    assert (found, said) == (code, "")
    directory = run_directory(running.cluster)
    saved = events(directory, "checkpoint")[-1]
    assert (directory / saved["file"]).is_file()
    assert saved["iteration"] >= 20
    assert running.left() == []
    assert running.sockets() == []


@pytest.mark.slow
def test_two_signals_stop_at_once(running: Running) -> None:
    # winding down cannot end by itself while this process is stopped
    os.kill(running.pids["fc_server"], signal.SIGSTOP)
    os.kill(running.process.pid, signal.SIGINT)
    os.kill(running.process.pid, signal.SIGTERM)
    code, _ = running.finish(GONE_WITHIN + 1)
    assert code in (130, 143)
    assert running.left() == []


@pytest.mark.slow
def test_a_hangup_saves_and_training_goes_on(running: Running) -> None:
    os.kill(running.process.pid, signal.SIGHUP)
    assert running.process.stdout is not None
    for line in running.process.stdout:
        if line.startswith("checkpoint"):
            break
    for line in running.process.stdout:
        if line.startswith("progress"):
            break
    os.kill(running.process.pid, signal.SIGINT)
    code, _ = running.finish(10)
    assert code == 130


STUCK = """
import time
from runtime import Actor, ActorSpec, Topology

class Worker(Actor):
    async def run(self):
        await self.compute("a kernel that never ends", time.sleep, 1000)

class Blocked(Actor):
    async def run(self):
        time.sleep(1000)

class Broken(Actor):
    async def run(self):
        raise ValueError("no such number: 7")

ROLES = {"worker": Worker, "blocked": Blocked, "broken": Broken}

def plan(config, options):
    return Topology(__name__, (ActorSpec("one", KIND),), (), "one")
"""


@pytest.mark.few("[worker")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "worker",
            (
                r"process one \(one\) on local .* has been computing 'one a kernel that "
                r"never ends' for \d+ s"
            ),
        ),
        (
            "blocked",
            (
                r"process one \(one\) on local .* sent no heartbeat for \d\.\d s: its "
                r"event loop is blocked"
            ),
        ),
        (
            "broken",
            (
                r"one \(process one on local .*\) failed: \S*hanging\.py:\d+, in run: ValueError: no such number: 7\n "
                r" its log: "
            ),
        ),
    ],
)
def test_a_role_that_hangs_or_raises_is_named_with_its_stack(
    tmp_path: Path, kind: str, expected: str
) -> None:
    (tmp_path / "hanging.py").write_text(STUCK.replace("KIND", repr(kind)))
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('program = "hanging"\n[liveness]\nprogress_seconds = 1.0\n')
    done = run_up(cluster)
    assert done.returncode == 4
    assert re.match(expected, done.stderr), done.stderr
    log = (run_directory(cluster) / "logs" / "one.log").read_text()
    if kind == "broken":
        assert "Traceback" in log
    else:
        assert 'File "<frozen' in log or "hanging.py" in log or "thread.py" in log
        assert "Current thread" in done.stderr or "Thread 0x" in done.stderr

"""A run over three machines reached by ssh: each process that is killed and each machine that is
cut off is named, and nothing is left on any machine.

CONVOY_KILLS sets how often each case runs (1 by default; the release figure is 10). With
--junitxml=FILE, the file records the seconds until the loss was named and until nothing was left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.helpers.machines import Machine
from tests.chaos.running import NAMED_WITHIN, Running
from tests.helpers.far_machines import RECOVERING, Far, far_machines, folders, or_skip
from tests.helpers.support import SITE, configure, events, parent_of, run_directory
from tests.journeys.clusters.test_launchers import PROCESS

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("CONVOY_KILLS", "1"))
GONE_WITHIN = 10.0
LINK_SECONDS = 2.0
CUT_SECONDS = 5.0
SETTINGS = f"[liveness]\nlink_seconds = {LINK_SECONDS}\n"
PROGRAM = """
import asyncio
from runtime import Actor, ActorSpec, Envelope, Topology
from runtime.messages.message import WindDown

class Waiting(Actor):
    async def run(self):
        await asyncio.Event().wait()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.finish()

ROLES = {"waiting": Waiting}

def plan(config, options):
    names = ("a", "b", "c")
    links = (("a", "b"), ("b", "c"), ("c", "a"))
    return Topology(__name__, tuple(ActorSpec(name, "waiting") for name in names), links, "a")
"""

ROUNDS = """
import asyncio
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message
from runtime.messages.message import WindDown

@message
class Turn(Message):
    pass

class Asked(Actor):
    async def on_turn(self, message: Turn, envelope: Envelope) -> None:
        await self.reply(envelope, Turn())

class Asking(Actor):
    over = False

    async def run(self):
        while not self.over:
            for name in ("b", "c"):
                await self.ask(name, Turn(), Turn)
            self.emit("round")
            await asyncio.sleep(0.1)
        self.finish()

    async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None:
        self.over = True

ROLES = {"asked": Asked, "asking": Asking}

def plan(config, options):
    actors = (ActorSpec("a", "asking"), ActorSpec("b", "asked"), ActorSpec("c", "asked"))
    return Topology(__name__, actors, (("a", "b"), ("a", "c")), "a")
"""
Note = Callable[[str, object], None]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with or_skip(far_machines(tmp_path_factory.mktemp("far") / "ssh", 3)) as made:
        yield made


def waiting(
    folder: Path, three: Far, kind: str, program: str = PROGRAM, settings: str = SETTINGS
) -> Path:
    """Write a cluster.toml with one actor on each machine; all actors wait for ever."""
    (folder / "waiting.py").write_text(program)
    tables = three.tables(more=f'directory = "{folder}"\n')
    places = [PROCESS.format(number=number, actors=name) for number, name in enumerate("abc")]
    cluster = folder / "cluster.toml"
    cluster.write_text(
        f'program = "waiting"\n{tables}{"".join(places)}[launcher]\nkind = "{kind}"\n{settings}'
    )
    return cluster


@contextmanager
def cut(machine: Machine) -> Iterator[None]:
    """Unplug the machine's cable inside the block."""
    words = ["ip", "-n", machine.namespace, "link", "set", "eth0"]
    subprocess.run([*words, "down"], check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([*words, "up"], check=True, timeout=60)


@pytest.fixture
def running(tmp_path: Path, three: Far) -> Iterator[Running]:
    run = Running(
        waiting(tmp_path, three, "ssh"), lambda line: line.startswith("began"), three.path()
    )
    yield run
    run.end()


def agent_of(three: Far, number: int) -> int:
    """The pid of a machine's agent. The processes that it has forked have the same command line."""
    found = {
        int(line.split()[1])
        for line in three.living()
        if re.search(rf"-m runtime join \S+ m{number}$", line)
    }
    (agent,) = (pid for pid in found if parent_of(pid) not in found)
    return agent


def ssh_of(number: int, run: Running) -> int:
    """The pid of the ssh process that keeps the machine's agent."""
    said = subprocess.run(
        ["pgrep", "-P", str(run.process.pid), "-f", f" -- m{number} "],
        capture_output=True,
        text=True,
    )
    (found,) = map(int, said.stdout.split())
    return found


def left(three: Far) -> list[str]:
    """The processes and folders that are left after GONE_WITHIN seconds; returns earlier once all
    are gone.
    """
    deadline = time.monotonic() + GONE_WITHIN
    while True:
        found = three.living() + folders()
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize("victim", ["agent", "ssh"] * KILLS)
def test_a_machine_that_is_lost_is_named_and_nothing_is_left(
    running: Running, three: Far, victim: str, record_property: Note
) -> None:
    os.kill(agent_of(three, 1) if victim == "agent" else ssh_of(1, running), signal.SIGKILL)
    killed = time.monotonic()
    line = running.named()
    record_property("named", named := time.monotonic() - killed)
    assert named <= NAMED_WITHIN
    assert re.match(
        (r"process p1 \(b\) on m1 \(\S+, pid \d+\) is lost with its machine 'm1': " r""), line
    ), line
    code, said = running.finish(GONE_WITHIN)
    assert (code, "Traceback" in said) == (4, False)
    assert (left(three), running.left()) == ([], [])
    record_property("gone", time.monotonic() - killed)


@pytest.mark.parametrize("turn", range(KILLS))
def test_an_agent_that_is_stopped_is_named_and_woken_to_its_end(
    running: Running, three: Far, turn: int
) -> None:
    os.kill(agent_of(three, 1), signal.SIGSTOP)
    stopped = time.monotonic()
    line = running.named()
    assert time.monotonic() - stopped <= LINK_SECONDS + 3.0
    assert re.search(
        (r"is lost with its machine 'm1': its agent gave no sign of life for " r"[2-4]\.\d s"), line
    ), line
    assert running.finish(GONE_WITHIN + 10)[0] == 4
    assert (left(three), running.left()) == ([], [])


@pytest.mark.parametrize("turn", range(KILLS))
def test_nothing_is_left_on_any_machine_when_up_is_killed(
    running: Running, three: Far, turn: int, record_property: Note
) -> None:
    assert len(three.living()) > 3
    running.process.kill()
    killed = time.monotonic()
    running.process.wait()
    assert (left(three), running.left()) == ([], [])
    record_property("gone", time.monotonic() - killed)


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_machine_that_is_cut_off_is_named_and_ends_by_itself(
    running: Running, three: Far, turn: int, record_property: Note
) -> None:
    with cut(three.machines[1]):
        began = time.monotonic()
        line = running.named()
        record_property("named", named := time.monotonic() - began)
        assert named <= LINK_SECONDS + 3.0
        assert " m1" in line, line
        code, said = running.finish(GONE_WITHIN + 10)
        assert (code, "Traceback" in said) == (4, False)
        assert (left(three), running.left()) == ([], [])
        record_property("gone", time.monotonic() - began)


@pytest.mark.parametrize("turn", range(KILLS))
def test_a_machine_that_is_cut_off_for_five_seconds_costs_time_and_nothing_else(
    tmp_path: Path, three: Far, turn: int, record_property: Note
) -> None:
    """The round in progress ends and others follow, since TCP sends the lost packets again."""
    settings = f"[liveness]\nlink_seconds = {3 * CUT_SECONDS}\n"
    cluster = waiting(tmp_path, three, "ssh", ROUNDS, settings)
    run = Running(cluster, lambda line: line.startswith("began"), three.path())

    def rounds_after(count: int) -> int:
        deadline = time.monotonic() + 2 * CUT_SECONDS
        while (
            done := len(events(run_directory(cluster), "round"))
        ) <= count and time.monotonic() < deadline:
            time.sleep(0.05)
        return done

    try:
        assert rounds_after(2) > 2
        with cut(three.machines[1]):
            began = time.monotonic()
            time.sleep(CUT_SECONDS)
            before = len(events(run_directory(cluster), "round"))
        assert rounds_after(before + 2) > before + 2, run.finish(GONE_WITHIN)
        record_property("back", time.monotonic() - began - CUT_SECONDS)
        os.kill(run.process.pid, signal.SIGINT)
        assert run.finish(20) == (130, "")
        assert (left(three), run.left()) == ([], [])
    finally:
        run.end()


def test_an_interrupt_ends_a_run_that_waits_for_machines(tmp_path: Path, three: Far) -> None:
    cluster = waiting(tmp_path, three, "manual")
    run = Running(cluster, lambda line: line.startswith("machine 'm2': type there"), three.path())
    try:
        os.kill(run.process.pid, signal.SIGINT)
        assert run.finish(5) == (130, "")
        assert left(three) == []
    finally:
        run.end()


@pytest.mark.parametrize("turn", range(KILLS))
def test_an_interrupt_ends_a_run_over_machines_well(
    running: Running, three: Far, turn: int
) -> None:
    os.kill(running.process.pid, signal.SIGINT)
    assert running.finish(20) == (130, "")
    assert (left(three), running.left()) == ([], [])


@pytest.mark.parametrize("machines", ["all", "reachable"])
def test_a_run_that_loses_a_machine_goes_on_when_it_is_back_or_on_the_others(
    tmp_path: Path, three: Far, machines: str
) -> None:
    configure(tmp_path, "single", iterations=140)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 50"))
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(
        three.tables(more=f'directory = "{tmp_path}"\n')
        + RECOVERING.format(restarts=4, machines=machines)
    )
    run = Running(cluster, lambda line: " 60/140" in line, three.path())
    ssh = three.folder / "bin" / "ssh"
    script = ssh.read_text()
    try:
        # machine m1 cannot be reached
        ssh.write_text(script.replace("exec ", 'case "$*" in *" m1 "*) exit 255;; esac\nexec '))
        os.kill(agent_of(three, 1), signal.SIGKILL)
        assert run.process.stdout is not None
        said = iter(run.process.stdout)
        assert any(line.startswith("restart ") for line in said)
        if machines == "all":
            assert any(re.match(r"restart +\d of 4 within 600 s, in 1 s", line) for line in said)
            ssh.write_text(script)
        else:
            assert any(line.startswith("restart    goes on without machine 'm1'") for line in said)
        assert any(line.startswith("finished") for line in said)
        assert run.finish(20)[0] == 0
        assert left(three) == []
    finally:
        ssh.write_text(script)
        run.end()


def test_a_run_whose_machine_falls_silent_goes_on_without_trying_to_reach_it(
    tmp_path: Path, three: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SITE))  # also on the machines: the net is paced
    configure(tmp_path, "single", iterations=1_000_000, paced=True)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", "snapshot: 10"))
    cluster = tmp_path / "cluster.toml"
    tables = three.tables(more=f'directory = "{tmp_path}"\n')
    cluster.write_text(tables + SETTINGS + RECOVERING.format(restarts=4, machines="reachable"))
    run = Running(cluster, lambda line: " 12/" in line, three.path())
    try:
        with cut(three.machines[1]):
            assert run.process.stdout is not None
            said = iter(run.process.stdout)
            assert any(line.startswith("restart    goes on without machine 'm1'") for line in said)
            restarts = [next(said)]
            for line in said:
                restarts += [line] if line.startswith("restart ") else []
                if line.startswith("progress "):
                    break
            assert [re.sub(" +", " ", line[:23]) for line in restarts] == ["restart count 1 of 4"]
            run.process.terminate()
            assert run.finish(20)[0] == 143
        assert left(three) == []
    finally:
        run.end()

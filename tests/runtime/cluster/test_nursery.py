"""The nursery, from which role processes are forked: it starts early and ends with its launcher.
And the threads of the processes that it forks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.cli.main import main
from runtime.cli.up import up
from runtime.cluster import nursery_start
from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.launchers import LocalLauncher, Nursery, local
from runtime.cluster.launchers.local import LocalProcess
from runtime.compute import threads
from runtime.config.sections import Machine
from runtime.errors import ConfigError, LaunchError
from runtime.plan.topology import ProcessSpec
from tests.helpers.support import (
    ROOT,
    configure,
    environment,
    events,
    parent_of,
    run_directory,
    runtime_command,
)

A = ProcessSpec(name="a", machine="local", threads=1, actors=())
FORKED = """
import json, os, sys
import numba, numpy
from threadpoolctl import threadpool_info
from runtime.compute import threads
from runtime.config.sections import Machine
read, write = os.pipe()
if os.fork() == 0:
    threads.use(2, free=3)
    numpy.ones((300, 300)) @ numpy.ones((300, 300))
    blas = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    told = {"blas": blas, "numba": numba.config.NUMBA_NUM_THREADS, "kernels": os.environ["CONVOY_THREADS"]}
    told["free"] = os.environ["CONVOY_FREE_CORES"]
    os.write(write, json.dumps(told).encode())
    os._exit(0)
os.wait()
print(os.read(read, 4096).decode())
"""

OF_AN_AGENT = """
import asyncio, json, os, sys
from pathlib import Path
os.set_inheritable(os.open("/dev/zero", os.O_RDONLY), True)
from runtime.cli.interrupts import Interrupts
Interrupts().hear()
from runtime.cluster import nursery_start
nursery_start.begin()
from runtime.cluster.launchers import local, LocalLauncher, Nursery, local
from runtime.cluster.launcher import LaunchPlan
from runtime.plan.topology import ProcessSpec
async def born(nursery):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, bytes(4096))
    except BlockingIOError:
        os.set_blocking(write, True)
    local.open_file = lambda *of_its_log: os.dup(write)
    nursery.prepare("roles")
    launcher = LocalLauncher(LaunchPlan(Path(sys.argv[1]), "roles", (), nursery))
    launcher.begin()
    born = await launcher.launch(ProcessSpec(name="a", machine="local", threads=1, actors=()), 1)
    home = Path(f"/proc/{nursery.process.pid}")
    parent = int(Path(f"/proc/{born.pid}/stat").read_text().rpartition(")")[2].split()[1])
    told = {"parent": parent, "nursery": nursery.process.pid, "session": os.getsid(nursery.process.pid)}
    told["open"] = [os.readlink(entry) for entry in (home / "fd").iterdir()]
    told["caught"] = int(home.joinpath("status").read_text().partition("SigCgt:")[2].split()[0], 16)
    os.close(write)
    await asyncio.to_thread(open(read, "rb").read)
    told["status"] = await born.wait()
    await launcher.close()
    return told
with Nursery.start() as nursery:
    told = asyncio.run(born(nursery))
print(json.dumps(told | {"ended": nursery.process.returncode}))
"""

OPENER = '''
"""A program that opens a file and says something when it is imported; its only actor looks around."""
import logging, os, traceback
from pathlib import Path
from runtime import Actor, ActorSpec, Topology

print("said once")
OPENED = open("opened", "a", buffering=1)
OPENED.write("imported\\n")

class Looker(Actor):
    async def run(self):
        OPENED.write("said by an actor\\n")
        print("into its log", flush=True)
        nursery = Path("/proc", str(os.getppid()))
        ups = Path("/proc", nursery.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        self.emit(
            "looked", nursery=os.getppid(), session=os.getsid(os.getppid()),
            line=nursery.joinpath("cmdline").read_text(), line_of_up=ups.joinpath("cmdline").read_text(),
            open=[os.readlink(entry) for entry in (nursery / "fd").iterdir()],
            stack=[frame.filename for frame in traceback.extract_stack()],
            handlers=[type(each).__name__ for each in logging.getLogger().handlers if "Warn" in type(each).__name__],
        )

ROLES = {"looker": Looker}

def plan(config, options):
    return Topology("opener", (ActorSpec("looker", "looker", {}),), (), "looker")
'''


def test_a_forked_process_computes_with_its_own_number_of_threads_although_libraries_had_one() -> (
    None
):
    alone = {**environment(), **threads.variables(1)}
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=ROOT,
        env=alone,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == {"blas": [2], "numba": 2, "kernels": "2", "free": "3"}


class FullLog:
    """Replaces the log of the next process by a full pipe, so that the process waits when it
    reports that it has no plan.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        with suppress(BlockingIOError):
            while True:
                os.write(self._write, bytes(4096))
        os.set_blocking(self._write, True)
        monkeypatch.setattr(local, "open_file", lambda *of_its_log: os.dup(self._write))

    async def told(self) -> str:
        """The text that the process writes, up to its end."""
        os.close(self._write)
        with open(self._read, "rb") as file:  # noqa: ASYNC230
            data = await asyncio.to_thread(file.read)
        return data.replace(b"\0", b"").decode()


async def test_processes_are_forked_from_the_nursery_that_was_started_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FullLog(monkeypatch)
    with Nursery.start() as nursery:
        nursery.prepare("roles")
        launcher = LocalLauncher(LaunchPlan(tmp_path, "roles", (Machine(),), nursery))
        await launcher.open(Machine())
        born = await launcher.launch(
            ProcessSpec(name="a", machine="local", threads=1, actors=()), 1
        )
        assert isinstance(born, LocalProcess)
        assert parent_of(born.pid) == nursery.process.pid
        assert "plan.json: found no such file" in await log.told()
        assert await born.wait() == 1  # the folder is not a run directory
        await launcher.close()


async def test_a_log_that_is_a_link_is_an_error_and_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "logs").mkdir(mode=0o700)
    (tmp_path / "logs" / "a.log").symlink_to(tmp_path / "precious")
    with Nursery.start() as nursery:
        launcher = LocalLauncher(LaunchPlan(tmp_path, "roles", (), nursery))
        launcher.begin()
        with pytest.raises(LaunchError, match="it is a link, expected a file of this user"):
            await launcher.launch(A, 1)
        await launcher.close()
    assert (tmp_path / "precious").read_text() == "precious"


async def test_a_nursery_forks_for_one_run_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Nursery.start() as nursery:
        for folder in (tmp_path / "1", tmp_path / "2"):
            folder.mkdir()
            launcher = LocalLauncher(LaunchPlan(folder, "roles", (), nursery))
            launcher.begin()
            assert await parent_of_born(launcher, monkeypatch) == nursery.process.pid
            await launcher.close()
            assert nursery.barren() == ""


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("killed", "has ended (killed by SIGKILL"),
        ("stopped", "is stopped"),
        ("owes", "does not answer"),
    ],
)
async def test_a_nursery_that_cannot_fork_for_another_run_gives_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, why: str
) -> None:
    with Nursery.start() as nursery:
        launcher = LocalLauncher(LaunchPlan(tmp_path, "roles", (), nursery))
        pid = nursery.process.pid
        launcher.begin()
        await parent_of_born(launcher, monkeypatch)
        if harm == "killed":
            nursery.process.kill()
            nursery.process.wait()
        else:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED)
        if harm == "owes":
            launch = asyncio.create_task(launcher.launch(A, 1))
            await asyncio.sleep(0)  # the launcher has sent its request
            launch.cancel()
            await asyncio.wait([launch])
        await launcher.close()
        if harm == "owes":
            os.kill(pid, signal.SIGCONT)
            await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WCONTINUED)
        assert nursery.barren().startswith(
            f"the process that role processes are forked from (pid {pid}) {why}"
        )


async def test_a_launch_that_was_given_up_does_not_take_the_process_of_the_next_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as log:
        nursery = Nursery(nursery_start.Forked(os.getpid()), ours, log)
        futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
        nursery.ordered.extend(futures)
        futures[0].cancel()
        theirs.sendall(b'{"pid": 1}\n{"pid": 2}\n')
        nursery.read()
        assert futures[1].result() == 2
        theirs.shutdown(socket.SHUT_WR)
        nursery.read()
        assert futures[2].result() is None
        assert nursery.gone


async def parent_of_born(launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch) -> int:
    """Fork a process and wait for its end; return its parent's pid."""
    log = FullLog(monkeypatch)
    born = await launcher.launch(A, 1)
    assert isinstance(born, LocalProcess)
    parent = parent_of(born.pid)
    assert "plan.json: found no such file" in await log.told()
    assert await born.wait() == 1
    monkeypatch.undo()
    return parent


def test_an_agents_forked_nursery_keeps_no_files_and_no_signal_handlers_of_the_agent(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_AN_AGENT, str(tmp_path)], cwd=ROOT, env=environment(), check=True,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["parent"] == told["session"] == told["nursery"]
    assert "/dev/zero" not in told["open"] and len(told["open"]) < 12
    assert not told["caught"] & 1 << signal.SIGTERM - 1
    # the process found no run; the nursery was closed
    assert (told["status"], told["ended"]) == (1, -signal.SIGKILL)
    assert done.stderr == ""


def test_a_nursery_learns_of_the_program_and_ends_if_the_configuration_has_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Nursery.start
    started = []
    monkeypatch.setattr(Nursery, "start", lambda: started.append(start()) or started[-1])
    with pytest.raises(ConfigError, match="17 workers cannot share"):
        up(configure(tmp_path, "sync", workers=17))
    assert [(nursery.prepared, nursery.process.returncode is not None) for nursery in started] == [
        (True, True)
    ]


def test_no_nursery_is_started_for_a_program_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nursery, "start", lambda: pytest.fail("a nursery was started"))
    cluster = configure(tmp_path, "single")
    cluster.write_text(
        'program = "nowhere"\n' + cluster.read_text().replace('program = "roles"\n', "")
    )
    with pytest.raises(ConfigError, match="nowhere"):
        up(cluster)


def test_the_forked_nursery_of_up_keeps_only_the_files_that_the_program_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "opener.py").write_text(OPENER)
    (tmp_path / "cluster.toml").write_text('program = "opener"\n')
    command = runtime_command("up")
    others = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(others, True)
    # `up` has buffered output that it has not written when it forks
    buffers = environment() | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=buffers,
        close_fds=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(others)
    assert (done.returncode, done.stderr) == (0, "")
    (told,) = events(run_directory(tmp_path / "cluster.toml"), "looked")
    assert told["nursery"] == told["session"]
    assert told["line"] == told["line_of_up"]
    assert "/dev/zero" not in told["open"]
    assert (tmp_path / "opened").read_text() == "imported\nsaid by an actor\n"
    assert done.stdout.count("said once") == 1
    (log,) = run_directory(tmp_path / "cluster.toml").joinpath("logs").iterdir()
    assert log.read_text().startswith("into its log\n")
    assert not [name for name in told["stack"] if "/cli/" in name or "cyclopts" in name]
    assert told["handlers"] == ["LoggedWarnings"], "the role process has handlers of `up`"


def test_a_process_that_has_a_thread_already_is_not_forked() -> None:
    code = (
        "import threading; from runtime.cluster import nursery_start\n"
        "over = threading.Event(); thread = threading.Thread(target=over.wait)\n"
        "def main():\n"
        "    thread.start()\n"
        "    from runtime.cluster.launchers import Nursery\n"
        "    with Nursery.start() as nursery: print(type(nursery.process).__name__)\n"
        "    return 0\n"
        "nursery_start.bearing(main, early=False); over.set()"
    )
    for without, found in (("nothing", "Popen"), ("    thread.start()\n", "Forked")):
        words = [sys.executable, "-c", code.replace(without, "")]
        done = subprocess.run(
            words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{found}\n"


@pytest.mark.parametrize(
    ("more", "times"), [(["--set", "simulation.clock=virtual"], 1), (["--test"], 1), ([], 0)]
)
def test_up_computes_with_all_its_threads_if_it_computes_itself(
    more: list[str], times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[bool] = []
    monkeypatch.setattr(threads, "release", lambda: released.append(True))
    monkeypatch.chdir(tmp_path)
    assert main(["up", str(configure(tmp_path, "single", iterations=1, test=True)), *more]) == 0
    assert len(released) == times


def test_a_nursery_begun_early_is_used_once_and_the_process_is_otherwise_unchanged() -> None:
    code = (
        "import os; before = dict(os.environ)\n"
        "from runtime.cluster import nursery_start; nursery_start.begin(); (begun,) = "
        "nursery_start._begun\n"
        "from runtime.cluster.launchers import Nursery\n"
        "from runtime.compute import threads; from threadpoolctl import threadpool_info\n"
        "def blas(): return [one['num_threads'] for one in threadpool_info() if "
        "one['user_api'] == 'blas']\n"
        "with Nursery.start() as first, Nursery.start() as second:\n"
        "    assert first.process is begun.process and second.process is not begun.process\n"
        "assert os.environ == before\n"
        "loaded = blas(); threads.release(); print(loaded, blas())"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[1] [2]\n", "")


def test_a_nursery_whose_launcher_vanishes_ends_itself() -> None:
    before = dict(os.environ)
    nursery = Nursery.start()
    nursery.link.close()
    assert nursery.process.wait(20) == 0
    nursery.close()
    assert os.environ == before  # the nursery's variables are its own


def test_a_nursery_that_is_ended_does_not_see_its_link_close() -> None:
    """Its process would take the closed link for the death of `up`, and remove the private folders
    of its other runs.
    """
    open_at: list[int] = []
    ours, theirs = socket.socketpair()

    def looks() -> None:
        open_at.append(ours.fileno())

    process: Any = SimpleNamespace(kill=looks, wait=looks)
    with theirs, tempfile.TemporaryFile() as log:
        nursery_start.Born(process, ours, log).close()
        assert (-1 in open_at, len(open_at), ours.fileno()) == (False, 2, -1)

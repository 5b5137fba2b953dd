"""A Ray cluster of two nodes: this host, which has its head, and a network namespace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.helpers.machines import Machine, Refused, machines
from tests.helpers.support import environment

PORT = 6399  # lower than the ports that Ray gives its workers
CLIENTS = 9399
# Ray gives its workers a low priority; on two busy cores they would take a minute to start
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
NODE = "--num-cpus 1 --num-gpus 0 --object-store-memory 80000000 --disable-usage-stats --block"
MACHINE = """
[[machine]]
name = "m{number}"
address = "auto"
cores = {cores}
threads = 1
python = "{python}"
environment = {{ PYTHONPATH = "{path}", TMPDIR = "{folder}" }}
"""


@dataclass(frozen=True)
class Cluster:
    """The `address` of Ray, the address `clients` for programs outside the cluster, the `temporary`
    folder, and the far node.
    """

    host: str
    temporary: Path
    far: Machine
    far_raylet: int

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def clients(self) -> str:
        return f"ray://{self.host}:{CLIENTS}"

    def tables(self, launcher: str, *, count: int = 2, cores: int = 1) -> str:
        """The text of [launcher] and of `count` machines."""
        made = [
            MACHINE.format(
                number=number,
                cores=cores,
                python=sys.executable,
                path=environment()["PYTHONPATH"],
                folder=self.folder,
            )
            for number in range(count)
        ]
        return f'[launcher]\nkind = "ray"\n{launcher}\n{"".join(made)}'

    @property
    def folder(self) -> Path:
        """The folder for the temporary folders of runs, on all nodes."""
        return self.temporary / "t"

    def left(self) -> list[str]:
        """The processes and files that runs have left on any node."""
        agents = [words for words in map(_words, _pids()) if f"runtime join {self.host}:" in words]
        return [*agents, *map(str, self.folder.iterdir())]


@contextmanager
def ray_cluster() -> Iterator[Cluster]:
    """Start the cluster. Raises Refused with the reason if it cannot run here: it needs root,
    network namespaces and Ray.
    """
    program = Path(sys.executable).with_name("ray")
    if not program.exists():
        raise Refused("the package ray is not installed")
    # a short name, since the paths of Ray's sockets lie in it
    temporary = Path(tempfile.mkdtemp(prefix="ry"))
    (temporary / "t").mkdir()
    with machines(1, 10**9) as (far,):
        host = f"{far.address.rpartition('.')[0]}.254"
        head = (
            f"--head --port {PORT} --include-dashboard=false --temp-dir {temporary} "
            f"--ray-client-server-port {CLIENTS}"
        )
        log = (temporary / "start.log").open("wb")
        nodes: list[subprocess.Popen[bytes]] = []
        try:
            for inside, words in (
                ([], f"{head} --node-ip-address {host}"),
                (
                    ["ip", "netns", "exec", far.namespace],
                    f"--address {host}:{PORT} --node-ip-address {far.address}",
                ),
            ):
                command = [*inside, str(program), "start", *words.split(), *NODE.split()]
                env = {**os.environ, **QUIET}
                nodes.append(
                    subprocess.Popen(
                        command, env=env, stdout=log, stderr=log, start_new_session=True
                    )
                )
                _answers(host, len(nodes))
            (raylet,) = (
                pid for pid in _inside(far) if "raylet/raylet" in _words(pid).split(" ", 1)[0]
            )
            yield Cluster(host, temporary, far, raylet)
        finally:
            for node in nodes:
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                with suppress(subprocess.TimeoutExpired):
                    node.wait(20)
            for pid in {*_inside(far), *(pid for pid in _pids() if str(temporary) in _words(pid))}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            log.close()
            shutil.rmtree(temporary, ignore_errors=True)


ASK = """
import ray, sys, time
ray.init(sys.argv[1], log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.1)
"""


def _answers(host: str, count: int) -> None:
    """Wait until the cluster has so many nodes."""
    words = [sys.executable, "-c", ASK, f"{host}:{PORT}", str(count)]
    for _ in range(20):
        with suppress(subprocess.TimeoutExpired):
            if (
                subprocess.run(
                    words, env={**os.environ, **QUIET}, capture_output=True, timeout=60
                ).returncode
                == 0
            ):
                return
    raise Refused("Ray does not start here")


def _inside(machine: Machine) -> list[int]:
    found = subprocess.run(
        ["ip", "netns", "pids", machine.namespace], capture_output=True, text=True, check=True
    )
    return [int(pid) for pid in found.stdout.split()]


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _words(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return ""

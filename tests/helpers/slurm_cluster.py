"""A cluster under Slurm on one machine: a slurmctld on the host, and a slurmd in each of several
network namespaces.

The namespaces have their own host names. The daemons use their own munged and read none of the
system's configuration.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.helpers.machines import Refused, machines
from tests.helpers.far_machines import Far
from tests.helpers.ports import free_ports
from tests.helpers.support import environment

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("srun", "sbatch", "salloc", "scancel", "sinfo", "squeue")
# Shorter than a test may take: the limit for the cluster to be ready, or for a job to reach the
# awaited state.
SECONDS = 90.0
CONF = """
ClusterName=test
SlurmctldHost={control}
SlurmctldPort={port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
MailProg=/bin/true
MpiDefault=none
KillWait=3
ReturnToService=2
SlurmdTimeout=10
SlurmdParameters=config_overrides
GresTypes=gpu
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = (
    "NodeName={name} NodeAddr={address} NodeHostname={name} CPUs={cores} RealMemory=4000 "
    "Gres=gpu:{cards}\n"
)
CARDS = "NodeName={name} Name=gpu File={folder}/card[0-1]\n"  # files, which no program opens
INSIDE = (
    "hostname {name} && mount --bind {folder}/{name}.hosts /etc/hosts && mount -t tmpfs none "
    "/sys/fs/cgroup && "
    "exec {slurmd} -D -f {folder}/slurm.conf"
)


@dataclass(frozen=True)
class Cluster:
    """Nodes n0, n1 ... with these cores. `slurmd` has each node's daemon, by name."""

    far: Far
    slurmd: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands reach this cluster."""
        return {**environment(), "SLURM_CONF": str(self.far.folder / "slurm.conf")}

    def run(self, *words: str | Path, cwd: Path | None = None) -> str:
        """The output of a command of Slurm."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.strip()

    def living(self) -> list[str]:
        """The processes on the nodes, without Slurm's own."""
        return [line for line in self.far.living() if "slurm" not in line.split()[2]]

    def settled(self, job: str) -> str:
        """Wait for the end of a job; return how it ended, such as "COMPLETED 0:0"."""
        words = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        until(lambda: self.run(*words) not in ("PENDING", "RUNNING", "COMPLETING"))
        shown = dict(
            word.partition("=")[::2] for word in self.run("scontrol", "show", "job", job).split()
        )
        return f"{shown['JobState']} {shown['ExitCode']}"


def until(true: Callable[[], bool]) -> None:
    """Wait until `true` returns true. Raises TimeoutError after SECONDS."""
    deadline = time.monotonic() + SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {SECONDS:g} s")
        time.sleep(0.1)


@contextmanager
def slurm_cluster(folder: Path, cores: tuple[int, ...] = (2, 1)) -> Iterator[Cluster]:
    """Start the cluster. Raises Refused with the reason if it cannot run here: it needs root,
    network namespaces and Slurm's packages.
    """
    search = f"{os.environ['PATH']}:/usr/sbin"
    missing = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=search) is None]
    if missing:
        raise Refused(
            f"{', '.join(missing)} not installed (Debian: slurmctld, slurmd, slurm-client, munge)"
        )
    folder.mkdir(parents=True)
    with machines(len(cores), 10**9) as made, ExitStack() as ends:
        cluster = Cluster(Far(made, folder))
        _write(cluster, cores, ends.enter_context(free_ports()))
        daemon = [shutil.which(name, path=search) for name in DAEMONS]
        files = {
            "key-file": "munge.key",
            "socket": "munge.socket",
            "pid-file": "munge.pid",
            "seed-file": "munge.seed",
        }
        words = [f"--{key}={folder / name}" for key, name in files.items()]
        ends.callback(
            _end, _start(folder, "munged", [daemon[0], "-F", "--force", "--num-threads=1", *words])
        )
        until((folder / "munge.socket").exists)
        ends.callback(
            _end, _start(folder, "slurmctld", [daemon[1], "-D", "-f", folder / "slurm.conf"])
        )
        for number, machine in enumerate(made):
            inside = INSIDE.format(name=f"n{number}", folder=folder, slurmd=daemon[2])
            enter = [
                "ip",
                "netns",
                "exec",
                machine.namespace,
                "unshare",
                "--uts",
                "sh",
                "-c",
                inside,
            ]
            cluster.slurmd[f"n{number}"] = _start(folder, f"n{number}", enter)
            ends.callback(_end, cluster.slurmd[f"n{number}"])
        until(lambda: _idle(cluster) == len(cores))
        yield cluster


def _write(cluster: Cluster, cores: tuple[int, ...], port: int) -> None:
    """Write the configuration. Each node finds itself at 127.0.1.1, as on Debian, and the others at
    their addresses.
    """
    folder = cluster.far.folder
    made = cluster.far.machines
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    (folder / "state").mkdir()
    control = f"{socket.gethostname()}({made[0].address.rpartition('.')[0]}.254)"
    nodes = cards = ""
    for number, (machine, count) in enumerate(zip(made, cores, strict=True)):
        (folder / f"n{number}").mkdir()
        nodes += NODE.format(name=f"n{number}", address=machine.address, cores=count, cards=2)
        cards += CARDS.format(name=f"n{number}", folder=folder)
        lines = ["127.0.0.1 localhost", f"127.0.1.1 n{number}"]
        lines += [
            f"{other.address} n{index}" for index, other in enumerate(made) if other != machine
        ]
        (folder / f"n{number}.hosts").write_text("".join(f"{line}\n" for line in lines))
    for card in ("card0", "card1"):
        (folder / card).touch()
    (folder / "gres.conf").write_text(cards)
    # slurmd looks for a cgroup.conf, although nothing here uses cgroups
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "slurm.conf").write_text(
        CONF.format(control=control, port=port, folder=folder, nodes=nodes)
    )


def _start(folder: Path, name: str, words: list[str | Path | None]) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.said").open("wb") as said:
        return subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _idle(cluster: Cluster) -> int:
    try:
        return cluster.run("sinfo", "-h", "-N", "-o", "%T").split().count("idle")
    except subprocess.CalledProcessError:  # slurmctld does not listen yet
        return 0

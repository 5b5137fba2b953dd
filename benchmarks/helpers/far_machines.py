"""Machines that only ssh reaches: network namespaces with an sshd each, and an ssh command that is
configured for them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.helpers.machines import Machine, Refused, machines
from benchmarks.helpers.survivor import environment

SSHD = ("sshd", "/usr/sbin/sshd")
PRIVILEGES = Path("/run/sshd")  # sshd insists on it
HOST = """
Host {name}
  HostName {address}
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
DAEMON = """
ListenAddress {address}
HostKey {folder}/{name}
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
"""


@dataclass(frozen=True)
class Far:
    """The machines. `folder` holds their keys, and its `bin` an ssh that is configured for them."""

    machines: list[Machine]
    folder: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def serve(self, number: int) -> None:
        """Start the sshd of a machine."""
        machine = self.machines[number]
        folder = self.folder
        with (folder / f"m{number}.log").open("ab") as log:
            command = [
                *machine.before,
                str(_daemon()),
                "-D",
                "-e",
                "-f",
                folder / f"m{number}.conf",
            ]
            self.daemons.append(subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL))

    def revive(self, number: int) -> None:
        """Bring back a machine that was cut off or whose processes were killed."""
        machine = self.machines[number]
        subprocess.run(
            ["ip", "-n", machine.namespace, "link", "set", "eth0", "up"], check=True, timeout=20
        )
        self.serve(number)
        _wait_for(machine)

    def path(self) -> dict[str, str]:
        """The environment in which `ssh` reaches the machines."""
        return {**environment(), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def tables(self, *, more: str = "") -> str:
        """The [[machine]] tables of cluster.toml, one for each machine."""
        settings = (
            f'python = "{sys.executable}"\nenvironment = {{ PYTHONPATH = '
            f'"{environment()["PYTHONPATH"]}" }}\n'
        )
        return "".join(
            (
                f'[[machine]]\nname = "m{number}"\naddress = "{machine.address}"\nthreads = '
                f"1\n{settings}{more}"
            )
            for number, machine in enumerate(self.machines)
        )

    def living(self) -> list[str]:
        """The command lines of all processes on the machines, other than sshd's."""
        return [
            f"{machine.namespace} {pid} {words}"
            for machine in self.machines
            for pid, words in _processes(machine)
            if not words.startswith(SSHD)
        ]


@contextmanager
def far_machines(folder: Path, count: int, bits_per_second: int = 10**9) -> Iterator[Far]:
    """Make `count` machines. Raises Refused with the reason if that fails: it needs root, network
    namespaces, sshd and ssh."""
    if _daemon() is None or shutil.which("ssh") is None:
        raise Refused("no sshd or no ssh is installed")
    folder.mkdir(parents=True, exist_ok=True)
    made_here = not PRIVILEGES.exists()
    with machines(count, bits_per_second) as made:
        far = Far(made, folder)
        try:
            PRIVILEGES.mkdir(exist_ok=True)
            _write_keys(far)
            for number in range(count):
                far.serve(number)
            for machine in made:
                _wait_for(machine)
            yield far
        finally:
            for process in far.daemons:
                process.terminate()
                process.wait()
            for machine in made:
                for pid, words in _processes(machine):
                    # over a cable that was cut, a session waits for hours
                    if words.startswith(SSHD):
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            if made_here:
                PRIVILEGES.rmdir()


def _processes(machine: Machine) -> Iterator[tuple[int, str]]:
    """The number and command line of each process on a machine."""
    for pid in machine.pids():
        with suppress(OSError):  # it has ended
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            if words:
                yield pid, words


def _daemon() -> str | None:
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")


def _write_keys(far: Far) -> None:
    folder = far.folder
    names = [f"m{number}" for number in range(len(far.machines))]
    for name in ("key", *names):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
        subprocess.run(make, check=True, timeout=20)
    known = []
    config = []
    for name, machine in zip(names, far.machines, strict=True):
        known.append(f"{machine.address} {(folder / f'{name}.pub').read_text()}")
        config.append(HOST.format(name=name, address=machine.address, folder=folder))
        (folder / f"{name}.conf").write_text(
            DAEMON.format(name=name, address=machine.address, folder=folder)
        )
    (folder / "known_hosts").write_text("".join(known))
    (folder / "config").write_text("".join(config))
    (folder / "bin").mkdir()
    program(folder / "bin" / "ssh", f'exec {shutil.which("ssh")} -F {folder}/config "$@"')


def program(path: Path, script: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _wait_for(machine: Machine) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((machine.address, 22), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise Refused(f"the sshd at {machine.address} does not answer") from None

"""Machines that `up` reaches by ssh, where a script stands for ssh: it starts the agent on a
machine by a command, such as `ip netns exec`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.helpers.far_machines import program
from benchmarks.helpers.machines import Machine
from benchmarks.helpers.survivor import environment

SSH = """while [ "$1" != "--" ]; do shift; done
host=$2; shift 2
case $host in
{cases}
esac
echo "found host '$host', expected m0 to m{last}" >&2
exit 255"""
CASE = 'm{number}) exec {before} sh -c "$*" ;;'
FAR = """[[machine]]
name = "m{number}"
address = "{at.address}"
threads = 1
cores = {cores}
python = "{python}"
directory = "{folder}"
environment = {{ PYTHONPATH = "{path}" }}
"""


def script(folder: Path, befores: Sequence[Sequence[str]]) -> Path:
    """Write `bin/ssh` into a folder. It puts `befores[n]` in front of the command for the host mn.
    Returns its folder, which goes first in PATH."""
    cases = (
        CASE.format(number=number, before=shlex.join(before))
        for number, before in enumerate(befores)
    )
    made = program(
        folder / "bin" / "ssh", SSH.format(cases="\n".join(cases), last=len(befores) - 1)
    )
    return made.parent


def tables(folder: Path, made: Sequence[Machine], cores: int) -> str:
    """The [[machine]] tables and the launcher of a cluster.toml. Agents keep their files in
    `folder`."""
    path = environment()["PYTHONPATH"]
    values = {"cores": cores, "python": sys.executable, "folder": folder, "path": path}
    far = "".join(FAR.format(number=number, at=at, **values) for number, at in enumerate(made))
    return f'{far}[launcher]\nkind = "ssh"\n'


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Let this process find its programs in `folder` first."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before

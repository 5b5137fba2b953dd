"""`join`: act as the agent of this machine for a run that `up` leads on another one."""

from __future__ import annotations

import os
import sys

from runtime.cluster.launchers import Nursery
from runtime.regular import decoded

MOST_BYTES = 4096  # at most in the line on standard input


def join(address: str, machine: str) -> int:
    """Let a run use this machine: its processes are started here, and end when the run ends.

    Standard input must begin with the line that `up` shows for this machine. The line admits this
    machine to this one run. Nothing of the run stays here afterwards.

    Parameters
    ----------
    address
        HOST:PORT, where `up` listens.
    machine
        The name of this machine in cluster.toml.
    """
    with Nursery.start() as nursery:
        from runtime.cluster.launchers.machine_agent import join as joined

        joined(address, machine, _first_line(), nursery)
    return 0


def _first_line() -> str:
    """The first line of standard input, "" if there is none. No further byte is read, since the
    agent may wait for the end of standard input."""
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        sys.stderr.write("paste the line that `up` shows for this machine:\n")
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_BYTES and (byte := os.read(0, 1)):
        line += byte
    if is_typed:
        sys.stderr.write(
            "this command stays here until the run ends or the machine leaves; Ctrl-C takes the "
            "machine out of the run\n"
        )
    return decoded(line, "replace")

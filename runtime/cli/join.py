"""`join`: be the agent of a machine in a run that `up` leads elsewhere."""

from __future__ import annotations

import os
import sys

from runtime.cluster.launchers import Nursery

MOST_BYTES = 4096  # of the line on standard input


def join(address: str, machine: str) -> int:
    """Let a run use this machine: its processes are started here, and end when it ends.

    Standard input begins with the line that `up` shows for this machine; it lets this machine in,
    for this run. Nothing of the run is left here.

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
    """Of standard input, and no byte more: its end may be waited for. Nothing if it has none."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("paste the line that `up` shows for this machine:\n")
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_BYTES and (byte := os.read(0, 1)):
        line += byte
    return line.decode(errors="replace")

"""The facts that a machine's agent sends when it joins, and the check that the machine fits the
run."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile

from runtime.cluster.machines.agent_messages import Joined
from runtime.machine.memory import MachineMemory
from runtime.machine.usable_cores import usable
from runtime.machine.versions import sources, versions

OURS = "convoy-runtime"


def facts_here(machine: str, address: str) -> Joined:
    """Return the facts of this machine."""
    try:
        disk = shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        disk = -1
    memory = MachineMemory().available
    return Joined(
        machine=machine,
        host_name=socket.gethostname(),
        pid=os.getpid(),
        versions=dict(versions()),
        sources=sources(),
        cores=len(usable()),
        memory=-1 if memory is None else memory,
        disk=disk,
        address=address,
    )


def mismatch(joined: Joined) -> str:
    """Return why a machine cannot take part, or "" if it can. Other differences are compared before
    the run begins."""
    theirs = joined.versions.get(OURS)
    ours = versions()[OURS]
    if theirs != ours:
        return f"it has {OURS} {theirs}, this host {ours}: install the same version on both"
    if joined.sources != sources():
        text = (
            f"its {OURS} {theirs} has other sources ({joined.sources}) than this host's "
            f"({sources()})"
        )
        return f"{text}: install the same on both"
    return ""

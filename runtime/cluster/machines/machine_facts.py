"""What a machine says of itself when its agent joins, and what of it does not fit the run."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile

from runtime.cluster.machines.agent_messages import Joined
from runtime.compute import threads
from runtime.machine.memory import MachineMemory
from runtime.machine.versions import sources, versions

OURS = "convoy-runtime"


def facts_here(machine: str, address: str) -> Joined:
    """Of this machine."""
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
        cores=len(threads.usable()),
        memory=-1 if memory is None else memory,
        disk=disk,
        address=address,
    )


def mismatch(joined: Joined) -> str:
    """Why a machine cannot take part; "" if it can. What else could differ is compared before
    everyone begins."""
    theirs = joined.versions.get(OURS)
    ours = versions()[OURS]
    if theirs != ours:
        return f"it has {OURS} {theirs}, this host {ours}: install the same version on both"
    if joined.sources != sources():
        text = (
            f"its {OURS} {theirs} has other sources ({joined.sources}) than that of this "
            f"host ({sources()})"
        )
        return f"{text}: install the same on both"
    return ""

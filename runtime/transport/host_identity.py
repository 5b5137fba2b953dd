"""The identity of the host of this process. Processes of one host reach each other over files and
shared memory."""

from __future__ import annotations

import platform
from pathlib import Path

from runtime.machine.boot import boot_id

NETWORK = Path("/proc/self/ns/net")


def identity() -> str:
    """Return the boot id of the kernel and the network namespace, which counts as a host of its
    own. Without these (not Linux), return the host's name."""
    try:
        return f"{boot_id()} {NETWORK.readlink()}"
    except OSError:
        return platform.node()

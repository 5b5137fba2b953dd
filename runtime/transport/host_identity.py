"""Which host this process is on: those of one host reach each other over files and shared
memory."""

from __future__ import annotations

import platform
from pathlib import Path

from runtime.machine.boot import boot_id

NETWORK = Path("/proc/self/ns/net")


def identity() -> str:
    """The boot of its kernel and its network namespace, which stands for a machine of its own;
    elsewhere than on Linux the host's name."""
    try:
        return f"{boot_id()} {NETWORK.readlink()}"
    except OSError:
        return platform.node()

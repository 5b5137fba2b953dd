"""Network namespaces of this machine. A process inside one sees only its network interfaces, as if
it ran on another machine.

The user makes the namespaces (`ip netns add NAME`); this module only enters them. Linux only, and
for root only.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from runtime.errors import LaunchError

FOLDER = Path("/run/netns")  # the folder of `ip netns`
CLONE_NEWNET = 0x40000000


def check(machine: str, namespace: str) -> None:
    """Raise LaunchError if there is no such namespace, or if this user may not enter it."""
    if not (FOLDER / namespace).exists():
        make = f"make it: ip netns add {namespace}"
        raise LaunchError(
            f"machine '{machine}': there is no network namespace '{namespace}'; {make}"
        )
    if os.geteuid() != 0:
        raise LaunchError(
            f"machine '{machine}': only root may enter network namespace '{namespace}'"
        )


def enter(namespace: str) -> None:
    """Move this thread, and the threads that it starts, into a namespace. Raises OSError."""
    descriptor = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(descriptor)

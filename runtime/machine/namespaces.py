"""Network namespaces of this machine: a process inside one has its network interfaces only, as if
it were elsewhere.

They are made by whoever wants them (`ip netns add NAME`); here a process enters one. Linux only,
and for root only.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from runtime.errors import LaunchError

FOLDER = Path("/run/netns")  # where `ip netns` keeps them
CLONE_NEWNET = 0x40000000


def check(machine: str, namespace: str) -> None:
    """LaunchError if there is no such namespace, or it may not be entered."""
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
    """Move this thread, and those it starts, into a namespace. OSError if that fails."""
    descriptor = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(descriptor)

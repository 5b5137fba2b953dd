"""The boot of this machine's kernel. Only processes of one kernel can query each other's locks and
process ids."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return the id of the boot, which containers share with their host. On systems other than
    Linux, it is the host's name."""
    try:
        return BOOT.read_text("utf-8").strip()
    except OSError:
        return platform.node()

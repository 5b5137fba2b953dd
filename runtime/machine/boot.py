"""The boot of this machine's kernel: processes of one kernel can ask one another's locks and
processes."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """The id of the boot, which containers share with their host; elsewhere than on Linux the
    host's name."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return platform.node()

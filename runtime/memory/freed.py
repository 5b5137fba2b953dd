"""Reuse of freed memory: keeps memory that was freed after a message for the next message, by a
setting of the C library."""

from __future__ import annotations

import ctypes

# By default the C library returns freed memory to the system sooner. Then every page of a message
# is allocated again, and 1 MB arrays take 1.2 times as long.
KEPT_BYTES = 64 << 20
LARGEST_PIECE = 32 << 20  # bytes; glibc keeps no larger piece of freed memory
_TRIM_THRESHOLD = -1  # from malloc.h
_MMAP_THRESHOLD = -3


def keep() -> None:
    """Keep up to KEPT_BYTES of freed memory in this process from now on, if its C library is
    glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, LARGEST_PIECE)

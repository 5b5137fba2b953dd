"""Memory that came free after a message is kept for the next one: a word to the C library."""

from __future__ import annotations

import ctypes

# The C library gives freed memory back sooner: then every page of a message is made anew, and 1 MB
# arrays take 1.2 times as long.
KEPT_BYTES = 64 << 20
LARGEST_PIECE = 32 << 20  # bytes; glibc keeps no larger piece of freed memory
_TRIM_THRESHOLD = -1  # of malloc.h
_MMAP_THRESHOLD = -3


def keep() -> None:
    """Keep up to KEPT_BYTES in this process from now on, if its C library is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, LARGEST_PIECE)

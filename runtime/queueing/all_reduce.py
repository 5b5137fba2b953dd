"""How long members with one interface each take to sum arrays and to have the sum everywhere, and
which way is faster.

One message takes `latency` seconds and its bytes at `rate` bytes per second (FireCaffe, equation 4,
with the latency; the ring: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009; by
halves: Rabenseifner, Optimization of collective reduction operations, 2004). Adding up is counted
as nothing.
"""

from __future__ import annotations

import math


def tree_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """Up a binary tree of the members and down again: at every level the whole array."""
    return 2 * _levels(members) * (latency + size / rate)


def ring_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """Twice round a ring, a piece for each member: 2 (members - 1) messages, one after the
    other."""
    return 2 * (members - 1) * (latency + size / members / rate)


def halving_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """By halves and back: as many messages as along the tree, as many bytes as round the ring, so
    that neither is ever sooner. For 1, 2, 4, 8, ... members."""
    return 2 * (_levels(members) * latency + size * (members - 1) / members / rate)


def ring_from(members: int, rate: float | None, latency: float) -> int | None:
    """From how many bytes on the ring is not slower than the tree; None: at no size. `rate` None:
    without a limit."""
    further = members - 1 - _levels(members)
    saved = _levels(members) - (members - 1) / members
    if members < 2 or rate is None:
        return None
    return math.ceil(max(0.0, latency * rate * further / saved))


def _levels(members: int) -> int:
    return max(0, members - 1).bit_length()

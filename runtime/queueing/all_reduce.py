"""All-reduce times: how long members with one network interface each take to sum arrays and to have
the sum everywhere, and which way is faster.

A message takes `latency` seconds, and its bytes travel at `rate` bytes per second. Adding up is
counted as nothing. Sources: FireCaffe, equation 4, with the latency added. The ring: Patarasuk and
Yuan, Bandwidth optimal all-reduce algorithms, 2009. Halving: Rabenseifner, Optimization of
collective reduction operations, 2004.
"""

from __future__ import annotations

import math


def tree_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """Return the seconds of a binary tree: up the tree and down again, the whole array at every
    level."""
    return 2 * _levels(members) * (latency + size / rate)


def ring_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """Return the seconds of a ring: twice round it, with a piece for each member. There are
    2 * (members - 1) messages, one after the other."""
    return 2 * (members - 1) * (latency + size / members / rate)


def halving_seconds(members: int, size: float, rate: float, latency: float) -> float:
    """Return the seconds of recursive halving and doubling, for 1, 2, 4, 8, ... members.

    It sends as many messages as the tree and as many bytes as the ring, so neither is ever faster.
    """
    return 2 * (_levels(members) * latency + size * (members - 1) / members / rate)


def ring_from(members: int, rate: float | None, latency: float) -> int | None:
    """Return the number of bytes from which the ring is not slower than the tree. None if it is
    slower at every size. With `rate` None the rate is unlimited."""
    further = members - 1 - _levels(members)
    saved = _levels(members) - (members - 1) / members
    if members < 2 or rate is None:
        return None
    return math.ceil(max(0.0, latency * rate * further / saved))


def _levels(members: int) -> int:
    return max(0, members - 1).bit_length()

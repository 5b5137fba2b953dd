"""Hardware efficiency in closed form: seconds per iteration of g compute groups with k devices
each.

Source: Omnivore, section 4.1 and appendix D.4, unless a function names another. Its assumptions:
times have no spread; k devices share a batch evenly and compute it k times as fast; in the conv
phase, computing and transfers overlap; the FC phase serves one group at a time; g * k devices
compute the conv phase and others the FC phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# k devices -> copies of the model and its gradient that pass the busiest link, one after the other
Copies = Callable[[int], float]


@dataclass(frozen=True)
class Phases:
    """The seconds that one batch takes in each phase. Raises ValueError if a value is not a finite
    number >= 0.

    - `compute`: T_c,c, the conv phase forward and backward on one device.
    - `network`: T_n,c, one copy of the conv model and one of its gradient over one link.
    - `fc`: t_fc, the FC phase of one group, with the transfer there and back.
    """

    compute: float
    network: float
    fc: float

    def __post_init__(self) -> None:
        for name in ("compute", "network", "fc"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: found {value}, expected a finite number of seconds >= 0")


def by_server(k: int) -> float:
    """Return the copies with one model server: all k copies pass its link (D.4.1: a linear
    slow-down)."""
    return k


def by_servers(count: int) -> Copies:
    """Return the copies if the model is shared out evenly over `count` servers, each with its own
    link. A device's own link carries one copy in any case (DistBelief, Project Adam)."""
    return lambda k: max(k / count, 1.0)


def by_tree(fan_in: int) -> Copies:
    """Return the copies of a tree of reducers with `fan_in` children each.

    A parent's link carries the gradients of its children, level by level, and the model comes back
    the same way (FireCaffe 6.2, which writes the fan-in as the base of the logarithm).
    """
    return lambda k: fan_in * _levels(k, fan_in) if k > 1 else 1.0


def by_binomial_tree(k: int) -> float:
    """Return the copies of a binomial tree: devices add up in pairs, in pairs of pairs and so on,
    and send the sum back. These are log2 k copies each way (FireCaffe 6.2)."""
    return float(max(1, _levels(k, 2)))


def by_collective(k: int) -> float:
    """Return the copies of reduce-scatter and all-gather.

    Each device's link carries (k - 1) / k of the gradient in, and as much of the sum (Patarasuk and
    Yuan, 2009: no exchange needs less). With a single device nothing travels.
    """
    return (k - 1) / k


def by_host(adding: float) -> Copies:
    """Return the copies if every device has its own link to the host's memory, where one gradient
    after the other is added up.

    `adding` is the time of one addition, divided by the time of one copy's transfer (Sekiyama et
    al., section 3). The slower of the two counts.
    """
    return lambda k: max(1.0, k * adding)


def conv_seconds(
    phases: Phases, k: int, copies: Copies = by_server, *, overlapped: bool = True
) -> float:
    """Return t_conv(k), the seconds of one group's conv phase. Computing and network go on at the
    same time, or one after the other if they are not `overlapped`."""
    parts = phases.compute / k, phases.network * copies(k)
    return max(parts) if overlapped else sum(parts)


def fc_seconds(compute: float, transfer: float, shards: int, exchange: float = 0.0) -> float:
    """Return t_fc if the FC phase is cut over `shards` servers (One weird trick).

    Each shard computes its share of the units. The activations of the group reach each shard
    (`transfer`), and the shards exchange columns (`exchange`).
    """
    return compute / shards + transfer + (exchange if shards > 1 else 0.0)


def iteration_seconds(
    g: int, conv: float, fc: float, *, fc_servers: int = 1, pipelined: bool = False
) -> float:
    """Return HE(g) = max(t_fc, (t_conv(k) + t_fc) / g): either the FC phase or the conv phase is
    saturated.

    `fc_servers`: the number of servers that serve different groups at once (D.4.2; each holds its
    own model, or a copy). `pipelined`: a group's devices compute another batch during its FC phase,
    which is then hidden (D.4.2).
    """
    return max(fc / fc_servers, (conv if pipelined else conv + fc) / g)


def penalty(g: int, conv: Callable[[int], float], fc: float, devices: int) -> float:
    """Return P_HE: the time per iteration of g groups, divided by the time of one group of all
    devices (D.4). It is at most 1 where asynchrony pays."""
    return iteration_seconds(g, conv(devices // g), fc) / iteration_seconds(1, conv(devices), fc)


def saturating_groups(
    choices: Iterable[int], conv: Callable[[int], float], fc: float, devices: int
) -> int | None:
    """Return the smallest g among `choices` with which the FC phase is saturated: t_conv(k) + t_fc
    <= g t_fc. None if none saturates it. The optimizer starts there (section 5.2)."""
    fitting = [g for g in sorted(choices) if conv(devices // g) + fc <= g * fc]
    return fitting[0] if fitting else None


def _levels(k: int, fan_in: int) -> int:
    """Return the number of levels of a tree over k leaves."""
    levels = 0
    reach = 1
    while reach < k:
        levels = levels + 1
        reach = reach * fan_in
    return levels

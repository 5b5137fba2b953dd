"""Hardware efficiency in closed form: seconds per iteration of g compute groups with k devices
each.

Source: Omnivore, section 4.1 and appendix D.4, unless a function names another. Assumptions, as
there: times have no spread; a batch is shared out evenly and k devices compute it k times as fast;
the conv phase computes while its network is at work; the FC phase serves one group at a time; g * k
devices compute the conv phase and others the FC phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# k devices -> copies of the model and its gradient that pass the busiest link in turn
Copies = Callable[[int], float]


@dataclass(frozen=True)
class Phases:
    """What one batch takes, in seconds. ValueError if one is no finite number >= 0.

    `compute`: T_c,c, the conv phase forward and backward on one device. `network`: T_n,c, one copy
    of the conv model and one of its gradient over one link. `fc`: t_fc, the FC phase of one group,
    with the transfer there and back.
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
    """One model server: all k copies pass its link (D.4.1: a linear slow-down)."""
    return k


def by_servers(count: int) -> Copies:
    """The model shared out evenly over `count` servers, each with a link of its own; a device's own
    link carries one copy in any case (DistBelief, Project Adam)."""
    return lambda k: max(k / count, 1.0)


def by_tree(fan_in: int) -> Copies:
    """Reducers with `fan_in` children each: a parent's link carries the gradients of its children,
    level by level, and the model comes back the same way (FireCaffe 6.2, its base of the
    logarithm)."""
    return lambda k: fan_in * _levels(k, fan_in) if k > 1 else 1.0


def by_binomial_tree(k: int) -> float:
    """Devices add up in pairs, in pairs of pairs, and send the sum back: log2 k copies each way
    (FireCaffe 6.2)."""
    return float(max(1, _levels(k, 2)))


def by_collective(k: int) -> float:
    """Reduce-scatter and all-gather: each device's link carries (k - 1) / k of the gradient in, and
    as much of the sum (Patarasuk and Yuan, 2009: no exchange needs less). Nothing travels where one
    device is alone."""
    return (k - 1) / k


def by_host(adding: float) -> Copies:
    """Every device has a link of its own to the host's memory, where one gradient after the other
    is added up: `adding` is the time of one addition in units of one copy's way (Sekiyama et al.,
    section 3: whichever is slower)."""
    return lambda k: max(1.0, k * adding)


def conv_seconds(
    phases: Phases, k: int, copies: Copies = by_server, *, overlapped: bool = True
) -> float:
    """t_conv(k): the conv phase of one group. Computing and network go on at the same time, or, if
    they are not `overlapped`, one after the other."""
    parts = phases.compute / k, phases.network * copies(k)
    return max(parts) if overlapped else sum(parts)


def fc_seconds(compute: float, transfer: float, shards: int, exchange: float = 0.0) -> float:
    """t_fc with the FC phase cut over `shards` servers (One weird trick): each computes its share
    of the units; the activations of the group reach each (`transfer`), and the shards exchange
    columns (`exchange`)."""
    return compute / shards + transfer + (exchange if shards > 1 else 0.0)


def iteration_seconds(
    g: int, conv: float, fc: float, *, fc_servers: int = 1, pipelined: bool = False
) -> float:
    """HE(g) = max(t_fc, (t_conv(k) + t_fc) / g): the FC phase is saturated, or the conv phase is.

    `fc_servers`: so many serve different groups at once (D.4.2; each holds a model of its own, or a
    copy). `pipelined`: a group's devices compute another batch during its FC phase, which is then
    hidden (D.4.2).
    """
    return max(fc / fc_servers, (conv if pipelined else conv + fc) / g)


def penalty(g: int, conv: Callable[[int], float], fc: float, devices: int) -> float:
    """P_HE: the time per iteration of g groups, divided by that of one group of all devices (D.4).
    At most 1 where asynchrony pays."""
    return iteration_seconds(g, conv(devices // g), fc) / iteration_seconds(1, conv(devices), fc)


def saturating_groups(
    choices: Iterable[int], conv: Callable[[int], float], fc: float, devices: int
) -> int | None:
    """The smallest g among `choices` with which the FC phase is saturated: t_conv(k) + t_fc <= g
    t_fc. None if none saturates it. Where the optimizer starts (section 5.2)."""
    fitting = [g for g in sorted(choices) if conv(devices // g) + fc <= g * fc]
    return fitting[0] if fitting else None


def _levels(k: int, fan_in: int) -> int:
    """Of a tree over k leaves."""
    levels = 0
    reach = 1
    while reach < k:
        levels = levels + 1
        reach = reach * fan_in
    return levels

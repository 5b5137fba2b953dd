"""What every preset starts from: the request, the coordinator, the model servers' part of a topology."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roles.coordination.schedule import Timetable
from roles.learning.job import Job
from roles.options import Strategy
from runtime.plan.topology import ActorSpec, Topology

COORDINATOR, CONV_MODEL, FC_SERVER = "coordinator", "conv_model", "fc_server"
Link = tuple[str, str]


@dataclass(frozen=True)
class Request:
    """What a preset is asked to lay out: the job, the strategy's options, and what is known of net and data.

    `layers` are the numbers of parameters of each layer of the part that the workers compute, in net order.
    """

    job: Job
    timetable: Timetable
    display: int
    image_shape: tuple[int, int, int]
    strategy: Strategy
    layers: Mapping[str, int]

    @property
    def workers(self) -> int:
        """How many."""
        return self.strategy.workers


@dataclass(frozen=True)
class Preset:
    """A strategy: how it is laid out, and what it asks of the net.

    `part` of the net is what its workers compute. `joint`: somebody holds the gradients of all layers of a pass at
    once. `groups`: how many groups of workers it makes. `servers`: how many model servers share the layers; 0 where
    that is not to be chosen. `shards`: over how many servers it shares out the FC phase by output units, if it does.
    `averages`: before a test, all its workers meet. `grouped`: its workers are in groups below model servers, so that
    pipelines and live changes have a meaning.
    """

    layout: Callable[[Request], Topology]
    part: str = "conv"
    joint: bool = False
    groups: Callable[[Strategy], int] = lambda strategy: 1
    servers: Callable[[Strategy], int] = lambda strategy: 0
    averages: bool = False
    grouped: bool = True
    shards: Callable[[Strategy], int] = lambda strategy: 0


def coordinator(
    request: Request,
    groups: Sequence[Sequence[str]],
    *,
    updates: int,
    servers: Sequence[str],
    holders: Sequence[str] | None = None,
    live: Mapping[str, Any] | None = None,
) -> ActorSpec:
    """The lead. `updates`: how many model servers report an iteration; `servers`: who holds the state to save;
    `holders`: who holds parameters (none named: the same); `live`: what the run can become (`regroup.Live`)."""
    options: dict[str, Any] = {
        "job": request.job.to_options(),
        "timetable": dataclasses.asdict(request.timetable),
        "groups": [list(members) for members in groups],
        "updates": updates,
        "servers": list(servers),
        "display": request.display,
        "holders": list(servers if holders is None else holders),
        "shares": request.strategy.cutting,
        "live": live,
    }
    return ActorSpec(COORDINATOR, "coordinator", options)

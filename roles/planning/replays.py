"""The actors and settings for which `train.gpu_step`, "replay" or "graph", has no effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from roles.base.role import JobOptions
from roles.learning.recordings import PLAIN
from runtime.plan.topology import Topology


def plain_steps(topology: Topology) -> Iterator[str]:
    """The reasons why steps are computed plainly in a run that asks for replays or graphs,
    each with the
    actors that it holds for."""
    # the lead computes nothing
    asking = {
        actor.name: actor.options
        for actor in topology.actors
        if isinstance(actor.options, JobOptions)
        and actor.name != topology.lead
        and actor.options.job.gpu_step != PLAIN
    }
    wanted = next((of.job.gpu_step for of in asking.values()), PLAIN)
    on_gpu = {name: of for name, of in asking.items() if of.job.on_gpu}
    if asking and not on_gpu:
        yield f"found '{wanted}', but every actor computes on the CPU; train.devices names GPUs"
    plain: defaultdict[str, list[str]] = defaultdict(list)
    for name, of in on_gpu.items():
        if why := of.kept_plain():
            plain[why].append(name)
    for why, names in plain.items():
        yield f"found '{wanted}', but steps are plain on {', '.join(names)}: {why}"

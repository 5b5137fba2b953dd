"""The actors and settings for which `train.gpu_step`, "replay" or "graph", has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from roles.base.role import JobOptions
from roles.learning.job import Job
from roles.learning.replayed_step import PLAIN
from runtime.plan.topology import Topology


def plain_steps(topology: Topology) -> Iterator[str]:
    """The reasons why steps are computed plainly in a run that asks for replays or graphs."""
    # the lead computes nothing
    computing = {
        actor.name: actor.options
        for actor in topology.actors
        if isinstance(actor.options, JobOptions) and actor.name != topology.lead
    }
    asking = {name: of for name, of in computing.items() if of.job.gpu_step != PLAIN}
    wanted = next((of.job.gpu_step for of in asking.values()), PLAIN)
    on_gpu = {name: of for name, of in asking.items() if of.job.device.startswith("cuda:")}
    if asking and not on_gpu:
        yield f"found '{wanted}', but every actor computes on the CPU; train.devices names GPUs"
    if plain := ", ".join(name for name, of in on_gpu.items() if not of.replays):
        yield f"found '{wanted}', but only preset 'single' replays steps, not {plain}"
    for name, of in on_gpu.items():
        if of.replays and (why := _kept_plain(of.job)):
            yield f"found '{wanted}', but {name} computes plainly: {why}"


def _kept_plain(job: Job) -> str:
    """The reason why a step of this job cannot be recorded; "" if there is none."""
    if job.passes > 1:
        return f"a step has {job.passes} passes (iter_size)"
    if job.solver_spec.clips:
        return "clip_gradients needs a norm on the host before the update"
    return "[train.ema] averages the parameters after the update" if job.solver_spec.average else ""

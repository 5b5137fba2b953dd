"""The nets of a role that computes, ready for passes: frozen layers have their parameters, and all
kernels are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nets import Net
from nets.data import Source
from nets.files.weights import match
from nets.graph.warm import warm
from nets.sharding.division import ShardedNet
from roles.learning.accumulated import AccumulatedNet
from roles.learning.job import InputShape, Job
from roles.learning.micro_batches import MicroBatches, WorkerNet
from roles.messages import TRAIN


def working_nets(job: Job, part: str, sources: Mapping[str, Source]) -> dict[str, WorkerNet]:
    """The working nets of all phases, for the inputs from these sources."""
    return {
        phase: working_net(job, phase, part, job.shapes(phase, sources[phase]))
        for phase in job.phases
    }


def working_net(job: Job, phase: str, part: str, image_shape: InputShape) -> WorkerNet:
    """A net as from `Job.build`, ready for passes. A reproducible run trains in micro-batches."""
    rows = job.rows_here.get(phase, job.rows(phase))
    if job.passes > 1 and phase == TRAIN and not job.emulated:
        accumulated = job.build(phase, part, image_shape, AccumulatedNet)
        assert isinstance(accumulated, AccumulatedNet)
        accumulated.passes = job.passes
        fix(accumulated, job)
        warm(accumulated, -(-rows // job.passes))
        return accumulated

    def build() -> Net:
        net = job.build(phase, part, image_shape)
        fix(net, job)
        warm(net, rows)
        return net

    return (
        MicroBatches(build, job.micro_batches) if job.micro_batches and phase == TRAIN else build()
    )


def working_shard(job: Job, phase: str, rank: int, of: int, image_shape: InputShape) -> ShardedNet:
    """A shard as from `Job.build_shard`, with the parameters of its frozen layers."""
    shard = job.build_shard(phase, rank, of, image_shape)
    fix(shard, job)
    return shard


def fix(net: Net | ShardedNet, job: Job) -> None:
    """Give a net, or a shard, the parameters of its frozen layers. Raises NetError if they do not
    fit."""
    whole = net.whole_frozen if isinstance(net, ShardedNet) else net.frozen
    if whole and not job.emulated:
        file = Path(job.resume).name or ", ".join(Path(path).name for path in job.weights)
        net.fix(match(job.frozen_blobs, whole, file).blobs)

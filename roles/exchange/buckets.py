"""Buckets of gradients that travel together: layers in the order of the backward pass, until they
are worth a message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from nets import ParamSpec, Stage
from ops import Array
from roles.learning.micro_batches import WorkerNet
from roles.messages import Blobs

# a bucket takes layers until it has so many bytes: the update of one hides the transfer of the next
BUCKET_BYTES = 1 << 18
# Between hosts, where a message costs more: CIFAR-10 quick is then one bucket, not three, and 8
# hosts whose messages two cores handle take 36 ms an iteration, not 51 (measured once, 2026-11-25).
# If handling were free, as predictions assume, they would take 20 ms, and 15 ms with three buckets.
FAR_BUCKET_BYTES = 1 << 20
# In shared memory, where members add up themselves between their own work, an earlier sum hides
# little, and a bucket costs two messages and two waits. LeNet in one bucket, not two: 4 % less
# processor time an iteration, 42 switches of threads, not 69 (2 workers, 2 cores, 2026-11-25).
SHARED_BUCKET_BYTES = 1 << 21


@dataclass(frozen=True)
class Bucket:
    """Stages in backward order. The gradients of their layers lie in one array of `size` numbers
    (`views`)."""

    number: int
    stages: tuple[Stage, ...]
    params: dict[str, tuple[ParamSpec, ...]] = field(repr=False)
    size: int

    def views(self, flat: Array) -> dict[str, Blobs]:
        """The gradients of each layer in the bucket's array."""
        found: dict[str, Blobs] = {}
        low = 0
        for layer, params in self.params.items():
            blobs = []
            for param in params:
                high = low + math.prod(param.shape)
                blobs.append(flat[low:high].reshape(param.shape))
                low = high
            found[layer] = tuple(blobs)
        return found


def buckets_of(net: WorkerNet, least: int = BUCKET_BYTES) -> list[Bucket]:
    """The net's buckets in the order in which a backward pass completes them. Each has at least
    `least` bytes, except the last."""
    made: list[Bucket] = []
    stages: list[Stage] = []
    for stage in reversed(net.stages):
        stages.append(stage)
        if _size(net, stages) * net.dtype.itemsize >= least:
            made.append(_bucket(net, len(made), stages))
            stages = []
    if stages:
        made.append(_bucket(net, len(made), stages))
    return made


def _bucket(net: WorkerNet, number: int, stages: Sequence[Stage]) -> Bucket:
    params = {stage.layer: net.params[stage.layer] for stage in stages if stage.layer is not None}
    return Bucket(number, tuple(stages), params, _size(net, stages))


def _size(net: WorkerNet, stages: Sequence[Stage]) -> int:
    layers = [stage.layer for stage in stages if stage.layer is not None]
    return sum(math.prod(param.shape) for layer in layers for param in net.params[layer])

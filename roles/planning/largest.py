"""The largest array that a run will send, to check before the start that no message exceeds
`links.max_message_bytes`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from nets import Net
from roles.base.shapes import Shapes
from roles.exchange.buckets import buckets_of
from roles.learning.job import Job

Array = tuple[int, str]  # bytes, description


def largest_array(shapes: Shapes, whole: Net) -> Array:
    """An upper bound: formats that make gradients smaller are not considered."""
    return max((*_parameters(whole), *_of_actors(shapes)), default=(0, ""))


def _parameters(whole: Net) -> Iterator[Array]:
    """The parameters of every layer: they go to checkpoints, and with most presets to the
    workers."""
    for layer, params in whole.params.items():
        for param in params:
            yield (
                math.prod(param.shape) * whole.dtype.itemsize,
                f"the {param.name} of layer '{layer}'",
            )


def _of_actors(shapes: Shapes) -> Iterator[Array]:
    for name, options in shapes.having("exchange").items():
        net = shapes.net(_plain(options.job), getattr(options, "part", "all"))
        size = max(bucket.size for bucket in buckets_of(net, options.exchange.options.bucket_bytes))
        yield size * shapes.number, f"a bucket of gradients of '{name}'"
    for name, options in shapes.having("fc_servers").items():
        net = shapes.net(_plain(options.job), "conv")
        for blob in net.boundary:
            yield (
                shapes.rows(name) * math.prod(net.row_shape(blob)) * shapes.number,
                f"blob '{blob}' of '{name}'",
            )
    for name, options in shapes.having("shards").items():
        shard = shapes.shard(_plain(options.job), options.shards.index(name), len(options.shards))
        for link in range(shard.last):
            for rank in range(len(options.shards)):
                wide, fixed = shard.sent(link, rank)
                yield (options.job.batch * wide + fixed) * shapes.number, f"columns of '{name}'"


def _plain(job: Job) -> Job:
    """The job with NumPy: nothing is computed, so the compiler need not be imported."""
    return dataclasses.replace(job, kernels="numpy")

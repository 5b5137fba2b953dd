"""The filters of layers with a `whitening` filler, from the first training images.

The planner computes them once, and every actor gets them with the job. So all workers begin with
the same bits, and only the planner reads images for it.
"""

from __future__ import annotations

import dataclasses

from nets import Net
from nets.data import Batches, Source
from nets.definition.params import WHITENING
from nets.definition.whitening import covariance, whitening_filters
from nets.layers.conv import Convolution
from roles.learning.job import Job
from roles.messages import TRAIN

IMAGES = 5000  # the first images of the training data; all if there are fewer


def with_whitening(job: Job, net: Net, source: Source) -> Job:
    """The job with the filters of the layers of `net`, its whole net for training. Raises NetError
    for a layer with the filler that does not read training images."""
    layers = [
        node.layer
        for node in net.nodes
        if any(param.filler.type == WHITENING for param in node.layer.params)
    ]
    if not layers or job.emulated:
        return job
    plain = dataclasses.replace(job, augment=None, shuffle=False)
    batches = plain.batches(TRAIN, source)
    assert isinstance(batches, Batches)
    batches.train = False  # as a test sees them: neither cropped nor mirrored at random
    samples = batches.samples(0, min(IMAGES, len(source)))
    images = dict(zip(net.inputs, samples, strict=False))
    found = {}
    for layer in layers:
        bottom = layer.proto.bottom[0]
        if not isinstance(layer, Convolution) or bottom not in images:
            text = f"'{WHITENING}' reads blob '{bottom}', expected a Convolution of training images"
            raise layer.error("weight_filler", text)
        geometry = layer.geometry
        if geometry.groups != 1 or geometry.dilation != (1, 1):
            text = f"'{WHITENING}': found group {geometry.groups} and dilation {geometry.dilation}"
            raise layer.error("weight_filler", f"{text}, expected 1 and (1, 1)")
        filters = whitening_filters(covariance(images[bottom], geometry.kernel))
        found[layer.name] = tuple(filters.ravel().tolist())
    return dataclasses.replace(job, whitening=found)

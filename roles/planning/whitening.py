"""The filters of layers with a `whitening` filler, from the first training images.

The planner computes them once, and every actor gets them with the job. So all workers begin with
the same bits, and only the planner reads images for it.
"""

from __future__ import annotations

import dataclasses

from nets import Net, whitening_layers, whitening_of
from nets.data import Batches, Source
from roles.learning.job import Job
from roles.messages import TRAIN

IMAGES = 5000  # the first images of the training data; all if there are fewer


def with_whitening(job: Job, net: Net, source: Source) -> Job:
    """The job with the filters of the layers of `net`, its whole net for training. Raises NetError
    for a layer with the filler that does not read training images."""
    if not whitening_layers(net) or job.emulated:
        return job
    plain = dataclasses.replace(job, augment=None, shuffle=False)
    batches = plain.batches(TRAIN, source)
    assert isinstance(batches, Batches)
    batches.train = False  # as a test sees them: neither cropped nor mirrored at random
    samples = batches.samples(0, min(IMAGES, len(source)))
    found = whitening_of(net, dict(zip(net.inputs, samples, strict=False)))
    whitening = {layer: tuple(numbers) for layer, numbers in found.items()}
    return dataclasses.replace(job, whitening=whitening)

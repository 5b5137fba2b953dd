"""`test`: what a model scores on the test data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nets import Net
from nets.files.weights import load_weights
from ops import Array
from roles.commands.common import job_of_file, say, told
from roles.learning.job import Job
from roles.messages import TEST
from runtime.cli.arguments import Settings
from runtime.errors import ConfigError


def test(weights: Path, file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Score a model on the test data.

    A net that has neither losses nor accuracies, such as one for deployment, is scored by the data's labels.

    Parameters
    ----------
    weights
        A checkpoint of ours, a .caffemodel or Caffe's HDF5 weights.
    file
        The cluster's description: its net and test data are used.
    """
    with told():
        job = job_of_file(file, settings)
        if TEST not in job.data:
            raise ConfigError([f"{file}: train.data.test: missing: there is nothing to test on"])
        for phase in job.test_phases:
            of = f", test net {job.test_name(phase)}" if len(job.test_phases) > 1 else ""
            for line in _scores(job, phase, weights):
                say(f"{line}{of}")
    return 0


def _scores(job: Job, phase: str, weights: Path) -> Iterator[str]:
    """A test net's scores, means over its images, and the layers that the weights lack: a line each."""
    source = job.source(phase)
    net = job.build(phase, "all", job.shapes(phase, source))
    batches = job.batches(phase, source, net, more=1)
    matched = load_weights(weights, net.params, job.shared)
    blobs = {**net.initial_blobs(), **{layer: tuple(of) for layer, of in matched.blobs.items()}}
    for layer in matched.missing:
        yield f"{weights.name} has no weights for layer '{layer}': its first values are used"
    total = job.test_rows(phase, source)
    sums: dict[str, float] = defaultdict(float)
    for number in range(-(-total // job.rows(phase))):
        rows = min(job.rows(phase), total - number * job.rows(phase))
        net.begin(number, (0, rows))
        fed = batches.read(number, 0, rows)
        for name, array in zip(net.inputs, fed, strict=False):  # labels may be left
            net.feed(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, tuple(net.ops.asarray(blob, net.dtype) for blob in blobs[stage.layer]))
            net.forward(stage)
        for name, value in (net.scalars() or _outputs(net, *fed[len(net.inputs) :])).items():
            sums[name] += rows * value
    for name, value in sums.items():
        yield f"{name} {value / total:.4f} on {total} images"


def _outputs(net: Net, labels: Array | None = None) -> dict[str, float]:
    """What can be said of a net without scores: in how many images the largest number of its only output is that of the
    label, if the data have `labels`; else the mean of each output."""
    outputs = {name: net.ops.to_host(net.blob(name)) for name in net.outputs}
    name, first = next(iter(outputs.items()))
    classes = first.ndim > 1 and first.size == first.shape[0] * first.shape[1] and first.shape[1] > 1
    if labels is not None and labels.ndim == 1 and len(outputs) == 1 and classes:
        best = first.reshape(len(first), -1).argmax(1)
        return {f"accuracy by the data's labels (largest number of '{name}')": float(np.mean(best == labels))}
    return {f"mean of output '{name}'": float(array.mean()) for name, array in outputs.items()}

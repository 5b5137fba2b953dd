"""`test`: what a model scores on the test data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nets.files.weights import load_weights
from roles.commands.common import job_of_file, say, told
from roles.learning.job import Job
from roles.messages import TEST
from runtime.cli.arguments import Settings
from runtime.errors import ConfigError


def test(weights: Path, file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Score a model on the test data.

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
    net, batches = job.build(phase, "all", source.shape), job.batches(phase, source)
    matched = load_weights(weights, net.params)
    blobs = {**net.initial_blobs(), **{layer: tuple(of) for layer, of in matched.blobs.items()}}
    for layer in matched.missing:
        yield f"{weights.name} has no weights for layer '{layer}': its first values are used"
    total = job.test_rows(phase, source)
    sums: dict[str, float] = {}
    for number in range(-(-total // job.rows(phase))):
        rows = min(job.rows(phase), total - number * job.rows(phase))
        net.begin(number, (0, rows))
        for name, array in zip(net.inputs, batches.read(number, 0, rows), strict=True):
            net.feed(name, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, tuple(net.ops.asarray(blob, net.dtype) for blob in blobs[stage.layer]))
            net.forward(stage)
        for name, value in net.scalars().items():
            sums[name] = sums.get(name, 0.0) + rows * value
    for name, value in sums.items():
        yield f"{name} {value / total:.4f} on {total} images"

"""`test`: what a model scores on the test data."""

from __future__ import annotations

from pathlib import Path

from nets.files.weights import load_weights
from roles.commands.common import job_of_file, say, told
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
        source = job.source(TEST)
        net, batches = job.build(TEST, "all", source.shape), job.batches(TEST, source)
        matched = load_weights(weights, net.params)
        blobs = {**net.initial_blobs(), **{layer: tuple(of) for layer, of in matched.blobs.items()}}
        for layer in matched.missing:
            say(f"{weights.name} has no weights for layer '{layer}': its first values are used")
        wanted = job.solver_spec.test_iter * job.test_batch
        total = min(wanted, len(source)) if wanted else len(source)
        sums: dict[str, float] = {}
        for number in range(-(-total // job.test_batch)):
            rows = min(job.test_batch, total - number * job.test_batch)
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
            say(f"{name} {value / total:.4f} on {total} images")
    return 0

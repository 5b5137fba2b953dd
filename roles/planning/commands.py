"""Commands of the built-in program: `time`, `test`, `convert`. They run in one process, without roles or messages."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cyclopts import Parameter

from nets import NetError, load_net
from nets.data import open_source
from nets.data.formats import FORMATS
from nets.files.weights import load_weights
from nets.tools.convert import (
    checkpoint_from_caffe,
    checkpoint_to_caffe,
    convert_solverstate,
    convert_weights,
    images_to_lmdb,
    mean_to_binaryproto,
    source_to_lmdb,
)
from nets.tools.timing import table, time_net
from nets.tools.volumes import volumes
from ops import OpsError
from roles.learning.job import Job
from roles.messages import TEST, TRAIN
from roles.options import Options
from roles.planning.planner import job_of
from runtime.cli.arguments import Settings
from runtime.config.file import load_with_program
from runtime.errors import ConfigError

WEIGHTS = (".caffemodel", ".h5", ".hdf5", ".safetensors")


def time(file: Path = Path("cluster.toml"), *, iterations: int = 10, settings: Settings = ()) -> int:
    """Time every layer of the net, forward and backward, as `caffe time` does.

    Parameters
    ----------
    file
        The cluster's description: its net, data and batch are used.
    iterations
        Passes to measure, after one to warm up.
    """
    with _told():
        job = _job(file, settings)
        net = job.build(TRAIN, "all", job.source(TRAIN).shape)
        size = volumes(net)
        _say(f"{net.spec.name}, batch {job.batch}, on {job.device}: {iterations} iterations")
        _say(table(time_net(net, iterations=iterations)))
        _say(f"parameters {size.weight_bytes / 1e6:.1f} MB, activations {size.data_bytes / 1e6:.1f} MB")
        plan = net.memory_plan
        arrays = f"arrays {plan.size / 1e6:.1f} MB ({plan.unshared / 1e6:.1f} MB if none shared a place)"
        _say(f"memory of a training pass: {arrays}, scratch {net.scratch / 1e6:.1f} MB")
    return 0


def test(weights: Path, file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Score a model on the test data.

    Parameters
    ----------
    weights
        A checkpoint of ours, a .caffemodel or Caffe's HDF5 weights.
    file
        The cluster's description: its net and test data are used.
    """
    with _told():
        job = _job(file, settings)
        if TEST not in job.data:
            raise ConfigError([f"{file}: train.data.test: missing: there is nothing to test on"])
        source = job.source(TEST)
        net, batches = job.build(TEST, "all", source.shape), job.batches(TEST, source)
        matched = load_weights(weights, net.params)
        blobs = {**net.initial_blobs(), **{layer: tuple(of) for layer, of in matched.blobs.items()}}
        for layer in matched.missing:
            _say(f"{weights.name} has no weights for layer '{layer}': its first values are used")
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
            _say(f"{name} {value / total:.4f} on {total} images")
    return 0


@Parameter(name="*")
@dataclass(frozen=True)
class Images:
    """How `convert` stores images.

    Parameters
    ----------
    new_height
        Resize images to this height; 0 keeps it.
    new_width
        Resize images to this width; 0 keeps it.
    gray
        Store images with one channel.
    encoded
        Store image files as they are.
    shuffle_seed
        Mix the images, the same way for the same seed.
    """

    new_height: int = 0
    new_width: int = 0
    gray: bool = False
    encoded: bool = False
    shuffle_seed: int | None = None


AS_THEY_ARE = Images()


def convert(
    source: str,
    target: Path,
    *,
    state: Path | None = None,
    file: Path = Path("cluster.toml"),
    settings: Settings = (),
    mean: bool = False,
    net: str | None = None,
    images: Images = AS_THEY_ARE,
) -> int:
    """Turn data sets and weights into one another; the names' endings say from what to what.

    Weights: .caffemodel, .caffemodel.h5, .safetensors; solver states: .solverstate, .solverstate.h5. Images: a list
    file ("path label" a line) or a folder with one folder per class -> LMDB. Any data source, written as
    "format=idx,images=a,labels=b" -> LMDB, or with --mean its mean image (.binaryproto). With --state Caffe's two
    snapshot files become a checkpoint that train.resume takes, or a checkpoint becomes the two files.

    Parameters
    ----------
    source
        A file, a folder, or a data source.
    target
        What to write.
    state
        The .solverstate that belongs to the weights, to read or to write.
    file
        With --state: whose net and solver the checkpoint is for.
    mean
        Write the mean image of the source.
    net
        The net that describes the layers of a .caffemodel to write.
    """
    with _told():
        if state is not None:
            _say(_snapshot(Path(source), target, state, _job(file, settings)))
        elif ".solverstate" in target.name:
            _say(f"{target}: iteration {convert_solverstate(Path(source), target).iteration}")
        elif target.suffix in WEIGHTS:
            layers = convert_weights(Path(source), target, load_net(net) if net else None)
            _say(f"{target}: {len(layers)} layers: {', '.join(layers)}")
        elif source.startswith("format="):
            _say(_from_source(source, target, mean))
        else:
            count = images_to_lmdb(
                Path(source),
                target,
                new_height=images.new_height,
                new_width=images.new_width,
                color="gray" if images.gray else "color",
                encoded=images.encoded,
                shuffle_seed=images.shuffle_seed,
            )
            _say(f"{target}: {count} images")
    return 0


def _from_source(source: str, target: Path, mean: bool) -> str:
    """Any data source -> an LMDB, or its mean image."""
    opened = open_source(_source(source), Path.cwd())
    if mean:
        mean_to_binaryproto(opened, target)
        return f"{target}: the mean of {len(opened)} images"
    return f"{target}: {source_to_lmdb(opened, target)} images"


def _snapshot(source: Path, target: Path, state: Path, job: Job) -> str:
    """Caffe's two files -> a checkpoint, or back."""
    net = job.build(TRAIN, "all", job.source(TRAIN).shape)
    learned = next(param for params in net.params.values() for param in params if param.keep is None)
    histories = len(job.solver_spec.new_history(job.backend_ops, learned))
    if source.suffix == ".safetensors":
        iteration = checkpoint_to_caffe(source, target, state, net.params, histories=histories, net=job.net_spec)
    else:
        name = job.net_spec.name
        iteration = checkpoint_from_caffe(source, target, net.params, state, histories=histories, name=name)
    return f"{target}: iteration {iteration}"


def _source(text: str) -> dict[str, object]:
    """ "format=idx,images=a,labels=b" -> a source's configuration; a list's items are joined by "+"."""
    pairs = [item.partition("=") for item in text.split(",")]
    found: dict[str, object] = {key: value for key, _, value in pairs}
    kinds = FORMATS[str(found["format"])].options if found.get("format") in FORMATS else {}
    for key, kind in kinds.items():
        if key in found and kind is not str:
            parts = str(found[key]).split("+")
            found[key] = int(parts[0]) if kind is int else [int(p) if kind is list else p for p in parts]
    return found


def _job(file: Path, settings: tuple[str, ...]) -> Job:
    loaded = load_with_program(file, settings)
    if not isinstance(loaded.options, Options):
        raise ConfigError([f"{file}: program '{loaded.config.program}' does not train nets"])
    job = job_of(loaded.config, loaded.options)
    devices = loaded.options.train.devices
    return dataclasses.replace(job, device=devices.get("single", devices.get("*", "cpu")))


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes of nets and files are told as mistakes of the command's input."""
    try:
        with np.errstate(over="ignore"):
            yield
    except NetError as error:
        raise ConfigError(error.problems) from None
    except (OpsError, OSError) as error:
        raise ConfigError([str(error)]) from None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")

"""`convert`: data sets, weights and snapshots from one format to another."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from pathlib import Path

from cyclopts import Parameter

from nets import NetError, counted, load_net
from nets.files.torch_files import PICKLED
from nets.onnx import export
from nets.predict import Given, for_use
from nets.predict.given import deployment_of
from nets.tools.convert import (
    blob_shapes,
    checkpoint_from_caffe,
    checkpoint_to_caffe,
    convert_solverstate,
    convert_weights,
    images_to_lmdb,
    mean_to_binaryproto,
    source_to_lmdb,
)
from roles.commands.common import (
    WEIGHTS,
    job_of_file,
    reported,
    say,
    source_said,
    told,
    weights_meant,
)
from roles.learning.job import Job
from roles.messages import TRAIN
from runtime.cli.arguments import Settings, Switch

TARGETS = (
    f"{', '.join(WEIGHTS)} for weights, .solverstate or .solverstate.h5 for solver states, "
    ".onnx for a net, "
    ".lmdb or none for images"
)


@Parameter(name="*")
@dataclass(frozen=True)
class Images:
    """How `convert` stores images.

    Parameters
    ----------
    root_folder
        The folder where the paths of a list begin; otherwise the folder of the list.
    new_height
        Resize images to this height; 0 keeps it.
    new_width
        Resize images to this width; 0 keeps it.
    gray
        Store images with one channel.
    orientation
        exif turns photographs upright, stored leaves their rows as they are in the file.
    encoded
        Store image files as they are.
    shuffle_seed
        Mix the images, the same way for the same seed.
    """

    root_folder: Path | None = None
    new_height: int = 0
    new_width: int = 0
    gray: Switch = False
    orientation: str = "exif"
    encoded: Switch = False
    shuffle_seed: int | None = None


AS_THEY_ARE = Images()


def convert(
    source: str,
    target: Path,
    *,
    state: Path | None = None,
    file: Path = Path("cluster.toml"),
    settings: Settings = (),
    mean: Switch = False,
    net: str | None = None,
    torch: Switch = False,
    images: Images = AS_THEY_ARE,
) -> int:
    """Convert data sets, weights and snapshots to other formats.

    The endings of the two names decide the formats. Weights: .caffemodel, .caffemodel.h5,
    .safetensors. Solver states: .solverstate, .solverstate.h5. A trained net: .onnx, from weights
    with --net, or from a checkpoint, which contains its net. Images become an LMDB, from a list
    file ("path label" on each line) or a folder with one folder per class. Any data source, written
    as "format=idx,images=a,labels=b", becomes an LMDB, or with --mean its mean image
    (.binaryproto). For example, "convert train.txt train_lmdb --root-folder photos --new-height 256
    --new-width 256" stores resized images, and "convert photos train_lmdb --encoded" stores the
    files unchanged. With --state, Caffe's two snapshot files become a checkpoint for train.resume,
    or a checkpoint becomes the two files. With --torch, .safetensors get the names of torch's
    modules, as .pth and .pt always do.

    Parameters
    ----------
    source
        A file, a folder, or a data source. For weights also a run, by its directory or name: its
        best model, else its newest checkpoint. Weights of one net in several files: A,B.
    target
        The file or database to write.
    state
        The .solverstate that belongs to the weights, to read or to write.
    file
        With --state: the cluster.toml with the net and the solver of the checkpoint, since Caffe's
        files do not contain the type of the solver.
    mean
        Write the mean image of the source.
    net
        The net that describes the layers of a .caffemodel to write, or the net of the weights for
        an .onnx.
    torch
        Name arrays as torch's modules do, in a .safetensors. A checkpoint contains its net; other
        weights need --net.
    """
    with told():
        if state is not None:
            say(_snapshot(weights_meant(source, file), target, state, job_of_file(file, settings)))
        elif ".solverstate" in target.name:
            say(f"{target}: iteration {convert_solverstate(Path(source), target).iteration}")
        elif target.suffix == ".onnx":
            size = (
                (images.new_height, images.new_width)
                if images.new_height or images.new_width
                else None
            )
            given = Given(
                net=load_net(net) if net else None, size=size, order="gray" if images.gray else ""
            )
            count = export(*for_use(weights_meant(source, file), given), target)
            say(f"{target}: {counted(count, 'operator')}")
        elif target.suffix in WEIGHTS:
            files = weights_meant(source, file)
            described = deployment_of(files) if torch or target.suffix in PICKLED else None
            layers = convert_weights(
                files,
                target,
                load_net(net).for_phase(TRAIN) if net else described.net if described else None,
                torch=torch,
            )
            say(f"{target}: {counted(len(layers), 'layer')}: {', '.join(layers)}")
        elif source.startswith("format="):
            _check_no_options(images)
            say(_from_source(source, target, mean))
        elif mean:
            raise NetError(
                f"--mean: found {source}, expected a data source, such as "
                f"format=images,source={source},new_height=256,new_width=256"
            )
        else:
            _check_database(target)
            count = images_to_lmdb(
                Path(source),
                target,
                root=images.root_folder,
                new_height=images.new_height,
                new_width=images.new_width,
                color="gray" if images.gray else "color",
                orientation=images.orientation,
                encoded=images.encoded,
                shuffle_seed=images.shuffle_seed,
            )
            say(f"{target}: {counted(count, 'image')}")
    return 0


def _from_source(source: str, target: Path, mean: bool) -> str:
    """Convert a data source to an LMDB, or to its mean image. Returns the line to print."""
    opened = source_said(source)
    if mean:
        mean_to_binaryproto(opened, target)
        return f"{target}: the mean of {counted(len(opened), 'image')}"
    _check_database(target)
    return f"{target}: {counted(source_to_lmdb(opened, target), 'image')}"


def _check_no_options(images: Images) -> None:
    """Raise NetError if an option is given that only files of images have: a data source has keys
    of its own."""
    options = fields(Images)
    given = [each.name for each in options if getattr(images, each.name) != each.default]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise NetError(
            f"{names}: given for a data source, expected only for a list or a folder of images: "
            "the keys of a source, such as new_height and color, are part of its text"
        )


def _check_database(target: Path) -> None:
    """Raise NetError unless this can be the name of a database. Another ending probably means
    another format."""
    if target.suffix not in ("", ".lmdb"):
        raise NetError(f"{target}: found the ending '{target.suffix}', expected {TARGETS}")


def _snapshot(source: tuple[Path, ...], target: Path, state: Path, job: Job) -> str:
    """Convert Caffe's weights and solver state to a checkpoint, or a checkpoint to them. Returns
    the line to print."""
    job = dataclasses.replace(job, freeze=())  # a solver state of Caffe's has all layers
    net = job.build(TRAIN, "all", job.shapes(TRAIN, reported(job.source(TRAIN))))
    solver = job.solver_spec.type
    if all(file.suffix == ".safetensors" for file in source):
        if len(source) > 1:
            found = ", ".join(map(str, source))
            raise NetError(f"--state: found {found}, expected one checkpoint with its history")
        iteration = checkpoint_to_caffe(
            source[0],
            target,
            state,
            net.params,
            solver=solver,
            net=net.spec,
            shapes=blob_shapes(net),
        )
    else:
        name = job.net_spec.name
        iteration = checkpoint_from_caffe(
            source, target, net.params, state, solver=solver, name=name, layers=net.spec.layers
        )
    return f"{target}: iteration {iteration}"

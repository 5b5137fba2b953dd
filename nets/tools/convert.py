"""Conversion between formats: data to LMDB, weights and solver states between Caffe's files and
checkpoints, mean images.

Each conversion is a plain function that reads `source` and writes a new file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.lmdb.writers import records_of_files, records_of_source, write_lmdb
from nets.data.sources.class_folders import class_folders
from nets.data.sources.images import check_options, read_list
from nets.data.sources.source import Source
from nets.definition.params import ParamSpec, generator
from nets.definition.solver_types import RULES
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import CheckpointError, DataError, NetError
from nets.files import checkpoint, torch_names
from nets.files.histories import SOLVER, TRAINED, check_solver
from nets.files.mean import write_mean
from nets.files.number_checks import finite, usable
from nets.files.parts import names
from nets.files.shared import Shapes, Slot, Weights, lent
from nets.files.solverstate import (
    SolverState,
    join_history,
    read_solverstate,
    split_history,
    write_solverstate,
)
from nets.files.torch_files import PICKLED, is_torchs
from nets.files.weights import (
    NONE,
    SHARES,
    from_checkpoint,
    listed,
    load_weights,
    read_each,
    shares,
    write_weights,
)
from nets.graph.graph import Net
from nets.regular import is_folder

Params = Mapping[str, Sequence[ParamSpec]]


def source_to_lmdb(source: Source, target: Path) -> int:
    """Write every sample of a source of labelled images as a Datum, and return their number. Raises
    DataError if `target` exists."""
    return write_lmdb(target, records_of_source(source))


def images_to_lmdb(
    source: Path,
    target: Path,
    *,
    root: Path | None = None,
    new_height: int = 0,
    new_width: int = 0,
    color: str = "color",
    orientation: str = "exif",
    encoded: bool = False,
    shuffle_seed: int | None = None,
) -> int:
    """Write the images of a list file, or of a folder per class, as Caffe's convert_imageset does.
    Returns their number.

    `root`: the folder where the list's paths begin (default: the list's folder). `encoded` stores
    the files unchanged. `shuffle_seed` shuffles them; the same seed gives the same order.
    """
    if encoded and (new_height or new_width or color != "color" or orientation != "exif"):
        raise DataError(
            "images: encoded images are stored unchanged, expected no size, colour or orientation"
        )
    if is_folder(source):
        if root is not None:
            raise DataError(
                f"images: root_folder: found '{root}', but {source} is a folder, not a list"
            )
        folders = class_folders(source)
        paths, labels = folders.paths, folders.labels
        _tell(folders.told)
    else:
        paths, labels = read_list(source, root)
    order = range(len(paths))
    if shuffle_seed is not None:
        order = generator(shuffle_seed, "convert").permutation(len(paths)).tolist()
    size = check_options("images", new_height, new_width, color, orientation)
    mixed = [paths[at] for at in order], [labels[at] for at in order]
    return write_lmdb(target, records_of_files(*mixed, size, color, orientation, encoded))


def mean_of(source: Source, chunk: int = 256) -> NDArray[np.float32]:
    """Return the mean image (C, H, W) of a source, summed in float64. Reads `chunk` samples at a
    time."""
    total = np.zeros(source.shape, np.float64)
    for start in range(0, len(source), chunk):
        images, *_ = source.read(np.arange(start, min(start + chunk, len(source))))
        total += images.sum(axis=0, dtype=np.float64)
    return (total / len(source)).astype(np.float32)


def mean_to_binaryproto(source: Source, target: Path) -> NDArray[np.float32]:
    """Write the mean image of a source as Caffe's compute_image_mean does, and return it."""
    mean = mean_of(source)
    write_mean(target, mean)
    return mean


def convert_weights(
    source: Path | Sequence[Path],
    target: Path,
    net: NetSpec | None = None,
    *,
    torch: bool = False,
) -> tuple[str, ...]:
    """Write the weights in `source`, one file or the files of one net, in the format of `target`'s
    suffix. Returns the names of the layers.

    Raises NetError for numbers that are not finite.

    Formats: .caffemodel, .caffemodel.h5 (.h5, .hdf5), .safetensors, .pth (.pt). `net`, in one
    state, describes the layers of a .caffemodel. It is required for Caffe's files of a net whose
    layers share parameters, and for files with the names of torch's modules: the source or, with
    `torch`, the target.
    """
    files = [source] if isinstance(source, Path) else source
    for file in files if net is None and target.suffix != ".safetensors" else ():
        if file.suffix == ".safetensors" and SHARES in checkpoint.metadata(file):
            text = (
                "its net shares parameters between layers, and Caffe's files list the "
                "blobs of each layer"
            )
            raise CheckpointError(f"{file}: {text}: name the net with --net")
    torchs = [str(file) for file in files if is_torchs(file)]
    if net is None and (torchs or torch or target.suffix in PICKLED):
        raise NetError(
            f"{(torchs or [str(target)])[0]}: its arrays have the names of torch's modules: name "
            "the net with --net"
        )
    found = read_each(files, net.layers if net else ())
    _tell(found.told)
    weights = found.weights
    if net is not None and torchs:
        weights = _of_net(weights, net, names(files))
    finite(names(files), weights)
    write_weights(target, weights, net, torch=torch)
    return tuple(weights)


def _of_net(weights: Weights, net: NetSpec, file: str) -> Weights:
    """Return the weights of the net's layers, and report the others. Raises NetError if there are
    none."""
    known = torch_names.named(net.layers)
    found = {layer: blobs for layer, blobs in weights.items() if layer in known}
    extra = listed([layer for layer in weights if layer not in known])
    missing = listed([layer for layer in known if layer not in found])
    if not found:
        raise NetError(
            f"{file}: no layer of the net is in the file; it has {extra}, expected {missing}"
        )
    _tell([f"{file}: layers {extra}: not in the net, so they are left out"] if extra else ())
    _tell([f"{file}: layers {missing}: not in the file, so they are left out"] if missing else ())
    return found


def convert_solverstate(source: Path, target: Path) -> SolverState:
    """Write a solver state in the other of Caffe's two formats (.solverstate, .solverstate.h5), and
    return it."""
    state = read_solverstate(source)
    finite(str(source), {"history": state.history})
    write_solverstate(target, state)
    return state


def checkpoint_from_caffe(
    weights: Path | Sequence[Path],
    target: Path,
    params: Params,
    state: Path | None = None,
    *,
    solver: str,
    name: str = "",
    layers: Sequence[LayerSpec] = (),
) -> int:
    """Write a checkpoint from which training continues where Caffe stopped. Returns the iteration
    (0 without `state`). `weights`: one file, or the files of one net.

    The checkpoint has `layer.i` and the solver's arrays `layer.i.history` and `layer.i.history2`,
    as many as a `solver` of this type has. They come from `state`, which does not name its type, or
    are zero. `params` and `layers` are the net's. Raises
    NetError if a layer of the net is missing, or if the history has too many or too few arrays.
    """
    _check_of_caffe(solver)
    histories = RULES[solver].histories
    matched = load_weights(weights, params, layers)
    _tell(matched.told)
    if matched.missing:
        files = names([weights] if isinstance(weights, Path) else weights)
        raise CheckpointError(
            f"{files}: found no weights for {', '.join(matched.missing)}, expected all layers"
        )
    usable(names([weights] if isinstance(weights, Path) else weights), matched.blobs, params)
    found = read_solverstate(state) if state is not None else None
    if found is not None:
        finite(str(state), {"history": found.history})
    history = split_history(found, params) if found else {}
    arrays: dict[str, NDArray[Any]] = {}
    for layer, blobs in matched.blobs.items():
        for at, (blob, param) in enumerate(zip(blobs, params[layer], strict=True)):
            kept = history[layer][at] if found else (np.zeros_like(blob),) * histories
            if state is not None and len(kept) != histories:
                text = (
                    f"found {len(kept)} arrays of history for each blob, but {solver} has "
                    f"{histories}"
                )
                raise CheckpointError(f"{state.name}: {text}: it belongs to another type of solver")
            arrays[f"{layer}.{at}"] = blob
            arrays |= dict(zip(_histories(layer, at, param, histories), kept, strict=False))
    iteration = found.iteration if found else 0
    facts = {"iteration": str(iteration), "net": name, SOLVER: solver}
    checkpoint.save(target, arrays, facts | shares(lent(layers)))
    if state is not None:
        text = "%s: a solver state does not name its solver: its history is used as history of %s"
        logging.getLogger("nets").warning(text, state.name, solver)
    return iteration


def checkpoint_to_caffe(
    source: Path,
    weights: Path,
    state: Path,
    params: Params,
    *,
    solver: str,
    net: NetSpec | None = None,
    shapes: Shapes = NONE,
) -> int:
    """Write a checkpoint's weights and history as Caffe's two snapshot files. Returns the
    iteration.

    `solver` is the type of the solver. Checkpoints of another type are refused; those of an earlier
    version do not name their type. For `net` and `shapes` see `write_weights`.
    """
    _check_of_caffe(solver)
    histories = RULES[solver].histories
    arrays, facts = checkpoint.load(source)
    if told := check_solver(
        source.name, facts, solver, (f"expected the solver of its run, of type {facts.get(SOLVER)}")
    ):
        logging.getLogger("nets").warning("%s", told)
    finite(str(source), {name: (array,) for name, array in arrays.items()})
    trained = {
        name.removesuffix(TRAINED): array
        for name, array in arrays.items()
        if name.endswith(TRAINED)
    }
    if trained:
        text = "%s: the weights are those that training goes on from, not their averages over time"
        logging.getLogger("nets").warning(text, source.name)
    found = from_checkpoint({**arrays, **trained}, source.name)
    iteration = facts.get("iteration", "0")
    named = {
        layer: [_histories(layer, at, param, histories) for at, param in enumerate(blobs)]
        for layer, blobs in params.items()
    }
    missing = [
        f"{source}: '{name}': missing, expected the solver's history"
        for name in (name for blobs in named.values() for names in blobs for name in names)
        if name not in arrays
    ]
    if missing or not iteration.isdigit():
        raise CheckpointError(
            missing or (f"{source}: found iteration '{iteration}', expected an integer >= 0")
        )
    write_weights(weights, found, net, shapes)
    history = {
        layer: tuple(
            tuple(arrays[name] for name in names)
            or (np.zeros(param.shape, np.float32),) * histories
            for names, param in zip(blobs, params[layer], strict=True)
        )
        for layer, blobs in named.items()
    }
    write_solverstate(state, SolverState(int(iteration), join_history(history), weights.name))
    return int(iteration)


def blob_shapes(net: Net) -> dict[Slot, tuple[int, ...]]:
    """Return the shape of every blob of every layer, including borrowed ones."""
    layers = (node.layer for stage in net.stages for node in stage.nodes)
    return {
        (layer.name, at): param.shape for layer in layers for at, param in enumerate(layer.params)
    }


def _check_of_caffe(solver: str) -> None:
    """Raise CheckpointError for a solver type whose histories Caffe's files cannot hold."""
    if not RULES[solver].of_caffe:
        text = f"found solver type '{solver}', which Caffe does not have, so its solver states have"
        raise CheckpointError(f"{text} no such histories: convert the weights alone")


def _histories(layer: str, index: int, param: ParamSpec, count: int) -> list[str]:
    """Return the names of a blob's history in a checkpoint. For a running statistic Caffe keeps
    zeros, and a checkpoint keeps nothing."""
    known = range(1, count + 1) if param.keep is None else ()
    return [f"{layer}.{index}.history{number if number > 1 else ''}" for number in known]


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        logging.getLogger("nets").warning("%s", line)

"""`extract`: the features of images, which are the output of a layer of a trained net."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nets import NetError
from nets.files import checkpoint
from nets.files.binary import replacing
from nets.predict import Predictor, for_use
from nets.predict.features import up_to
from roles.commands.common import named_samples, say, source_said, told, told_beside, weights_meant
from roles.commands.predict import FAILED, NOTHING, Said
from roles.learning.backends import cpu_ops
from runtime.errors import ConfigError
from runtime.reasons import reason
from runtime.terminal_text import one_line

Row = tuple[str, NDArray[np.float32] | str]  # an image, and its features or why it has none
SUFFIXES = (".safetensors", ".csv")


def extract(
    weights: str,
    *images: str,
    layer: str,
    output: Path | None = None,
    data: str | None = None,
    batch: int = 64,
    said: Said = NOTHING,
) -> int:
    """Write the features of images: the output of a layer of a trained net.

    Weights and images are those of `predict`. Exit code 1: some images could not be read. They are
    named on stderr and left out.

    Parameters
    ----------
    weights
        A checkpoint of Convoy, a .caffemodel or Caffe's HDF5 weights; or a run, by its directory or
        name: its best model, else its newest checkpoint. One net in several files: A,B.
    images
        Image files and folders.
    layer
        The name of the layer. Its output is one row of numbers for each image.
    output
        A .csv file with the name of an image and its numbers on each line, or a .safetensors file
        with the array "features" (images, numbers) and the list "names" in its metadata. By default
        CSV is printed.
    data
        Take the samples of a data source, written as "format=digits,split=test".
    batch
        The number of images that are computed at a time.
    """
    if batch < 1:
        raise ConfigError([f"--batch: found {batch}, expected an integer >= 1"])
    if output is not None and output.suffix not in SUFFIXES:
        expected = " or ".join(SUFFIXES)
        raise ConfigError([f"--output: found {output}, expected a file that ends with {expected}"])
    if bool(images) == (data is not None):
        found_words = "images and --data" if images else "neither images nor --data"
        raise ConfigError([f"extract: found {found_words}, expected one of the two"])
    with told():
        deployment, blobs = for_use(weights_meant(weights), said.given)
        whole = up_to(deployment, layer)
        net = Predictor(whole, blobs, batch=batch, backend=cpu_ops("compiled"))
        rows = (
            net.outputs(images, told=partial(told_beside, "images"))
            if data is None
            else _of_source(net, data)
        )
        failed: list[str] = []
        _write(_readable(rows, failed), output, layer, net.width)
    return FAILED if failed else 0


def _write(
    rows: Iterator[tuple[str, NDArray[np.float32]]], output: Path | None, layer: str, width: int
) -> None:
    """Write the features to a file, or print them. Without any, the file stays as it was. Raises
    NetError if the file cannot be written."""
    if output is None:
        for line in _csv(rows):
            say(line)
        return
    try:
        first = next(rows, None)
        if first is None:
            told_beside("extract", f"no image could be read, so {output} is not written")
            return
        rows = chain((first,), rows)
        if output.suffix == ".csv":
            count = _write_csv(rows, output)
        else:
            count = _write_safetensors(rows, output, layer)
    except OSError as error:
        raise NetError(f"{output}: cannot be written: {reason(error)}") from None
    say(f"wrote {output}: {count} x {width} numbers of layer {layer}")


def _of_source(net: Predictor, data: str) -> Iterator[Row]:
    """The features of the samples of a data source."""
    for names, images in named_samples(source_said(data), net.batch):
        yield from zip(names, net.scores(images), strict=True)


def _readable(rows: Iterator[Row], failed: list[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The images with features. The others are reported, and added to `failed`."""
    for name, found in rows:
        if isinstance(found, str):
            failed.append(name)
            told_beside("images", one_line(f"{name}: {found}"))
        else:
            yield name, found


def _csv(rows: Iterator[tuple[str, NDArray[np.float32]]]) -> Iterator[str]:
    """A line for each image: its name and its numbers."""
    for name, row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([name, *(f"{value:.9g}" for value in row)])
        yield line.getvalue()


def _write_csv(rows: Iterator[tuple[str, NDArray[np.float32]]], path: Path) -> int:
    """Write a line for each image, and return the number of images."""
    count = 0
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for line in _csv(rows):
            file.write(f"{line}\n")
            count += 1
    return count


def _write_safetensors(
    rows: Iterator[tuple[str, NDArray[np.float32]]], path: Path, layer: str
) -> int:
    """Write all features as one array, and return the number of images."""
    names, found = [], []
    for name, row in rows:
        names.append(name)
        found.append(row)
    checkpoint.save(
        path, {"features": np.stack(found)}, {"layer": layer, "names": json.dumps(names)}
    )
    return len(names)

"""`predict`: the classification of images by a trained net."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cyclopts import Parameter

from nets import load_net
from nets.data import Source
from nets.data.decoding.decode import ORIENTATIONS
from nets.predict import Classifier, Ensemble, Given, Prediction, Predictor
from nets.predict.deployment import ORDERS, read_classes
from nets.predict.given import mean_given
from nets.predict.ranking import best
from roles.commands.common import named_samples, source_said, told, told_beside
from roles.commands.members import CLUSTER, Member, members_of, weights_and_images
from roles.commands.prediction_lines import lines_of, lines_to
from roles.learning.backends import cpu_ops
from runtime.cli.arguments import Switch
from runtime.errors import ConfigError

FAILED = 1  # exit code: some image could not be read


@Parameter(name="*")
@dataclass(frozen=True)
class Said:
    """Facts that a checkpoint of Convoy contains. An option given here replaces that fact.

    Parameters
    ----------
    net
        The net of the weights: a prototxt or a name of the zoo.
    classes
        A file with the names of the classes, one on each line.
    mean
        The mean to subtract: one number, one per channel ("104,117,123"), or a .binaryproto file.
    scale
        The factor to multiply with after that.
    crop
        The side of the square that is cut from the middle.
    size
        HEIGHTxWIDTH, to which images are resized before they are cut.
    order
        The order of planes: bgr, rgb or gray.
    orientation
        exif turns photographs upright, stored leaves their rows as they are in the file.
    """

    net: str | None = None
    classes: Path | None = None
    mean: str | None = None
    scale: float | None = None
    crop: int | None = None
    size: str | None = None
    order: str | None = None
    orientation: str | None = None

    @property
    def given(self) -> Given:
        """These facts, read and checked. Raises NetError or ConfigError."""
        return Given(
            net=load_net(self.net) if self.net else None,
            classes=read_classes(self.classes) if self.classes else (),
            mean=mean_given(self.mean) if self.mean else None,
            scale=self.scale,
            crop=self.crop,
            size=_size(self.size) if self.size else None,
            order=_known("--order", self.order, ORDERS),
            orientation=_known("--orientation", self.orientation, ORIENTATIONS),
        )


NOTHING = Said()


def predict(
    weights: str,
    *images: str,
    top: int = 5,
    data: str | None = None,
    batch: int = 64,
    json: Switch = False,
    output: Path | None = None,
    said: Said = NOTHING,
) -> int:
    """Classify images with a trained net, or with an ensemble of nets.

    A checkpoint of Convoy contains its net, the transform of its images, and the names of its
    classes. Other weights need --net. Images of any size are resized. A folder stands for all
    images in it. Exit code 1: some images could not be read.

    With further weights before the images, the scores of all these nets are averaged. A word names
    weights by its ending (.safetensors, .caffemodel, .h5, .hdf5), as a folder with a model, or as
    the name of a run.

    Parameters
    ----------
    weights
        A checkpoint of Convoy, a .caffemodel or Caffe's HDF5 weights; or a run, by its directory or
        name: its best model, else its newest checkpoint. One net in several files: A,B.
    images
        Image files and folders. Before them: the weights of further nets.
    top
        The number of classes to print for each image, the best first.
    data
        Classify the samples of a data source: "format=digits,split=test". "format=net": of --net.
    batch
        The number of images that are computed at a time.
    json
        Write one line with a JSON object for each image.
    output
        A file for the classes, which are then not printed: .csv with a line for each class of an
        image, or .json with the lines of --json.
    """
    shown = lines_of(json, output)
    if top < 1 or batch < 1:
        raise ConfigError([f"--top, --batch: found {top}, {batch}, expected integers >= 1"])
    with told():
        more, pictures = weights_and_images(images)
        if bool(pictures) == (data is not None):
            found_words = "images and --data" if pictures else "neither images nor --data"
            raise ConfigError([f"predict: found {found_words}, expected one of the two"])
        members = members_of([weights, *more], CLUSTER)
        nets = _loaded(members, said.given, batch)
        found = (
            nets.files(pictures, top, told=partial(told_beside, "images"))
            if data is None
            else _of_source(nets, source_said(data, said.net), top)
        )
        failed = 0
        with lines_to(output) as write:
            for prediction in found:
                failed += bool(prediction.error)
                write(shown(prediction))
    return FAILED if failed else 0


def _loaded(members: Sequence[Member], given: Given, batch: int) -> Classifier:
    """The net of the only member, or the ensemble of all."""
    backend = cpu_ops("compiled")
    if len(members) == 1:
        return Predictor.load(members[0].files, given, batch=batch, backend=backend)
    files = {member.word: member.files for member in members}
    return Ensemble.load(files, given, batch=batch, backend=backend)


def _of_source(nets: Classifier, source: Source, top: int) -> Iterator[Prediction]:
    """The predictions for the samples of a data source."""
    for names, images in named_samples(source, nets.batch):
        for name, row in zip(names, nets.scores(images), strict=True):
            yield Prediction(name, best(row, top, nets.classes))


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,5})[x,](\d{1,5})", text)
    if found is None or not int(found[1]) * int(found[2]):
        raise ConfigError([f"--size: found '{text}', expected HEIGHTxWIDTH, such as 256x256"])
    return int(found[1]), int(found[2])


def _known(option: str, text: str | None, known: Collection[str]) -> str:
    if text and text not in known:
        raise ConfigError([f"{option}: found '{text}', expected one of {', '.join(known)}"])
    return text or ""

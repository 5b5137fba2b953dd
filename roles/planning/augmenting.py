"""The transform and the random changes of images, as [train.data] has them: the plain settings, and
what is wrong with them for the data and the net."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nets import DataError, NetError, hard_loss
from nets.data import Augment, Source, TransformKeys, first_transforming, is_one
from nets.data.augmentation.mixing import LABELS
from nets.data.augmentation.randaugment import RandAugment
from nets.data.augmentation.transform import TRANSFORMING
from nets.data.augmentation.transform_keys import flip_replaces
from nets.data.of_net import takes_orientation
from roles.data_options import Augment as Section
from roles.data_options import Data
from roles.learning.job import Job
from roles.learning.transforms import no_labels
from roles.messages import TRAIN
from roles.planning.by_solver import Remark
from roles.planning.diagnostics import Diagnostics

# keys whose values are taken as they are
PLAIN = (
    "brightness",
    "contrast",
    "saturation",
    "lighting",
    "pad",
    "padding",
    "erase",
    "mixup",
    "cutmix",
)
# keys without effect unless another key is given
NEEDED = {"ratio": "scale", "padding": "pad"}
KEYS = ("crop", "mean", "deviation")
SECTION = ("train", "data")
AUGMENT = (*SECTION, "augment")


def transform_of(data: Data) -> TransformKeys:
    """The keys of [train.data] that complete or replace the net's transform_param."""
    return TransformKeys(
        data.crop or 0, tuple(data.mean or ()), tuple(data.deviation or ()), data.order or ""
    )


def augment_of(data: Data) -> Augment | None:
    """The random changes to training images; None without any. Raises NetError for settings that
    are impossible."""
    said = data.augment
    drawn = said.randaugment
    found = Augment(
        **{name: getattr(said, name) for name in PLAIN},
        scale=(said.scale[0], said.scale[1]) if said.scale is not None else None,
        ratio=(said.ratio[0], said.ratio[1]),
        order=data.order or "",
        flip=said.flip or "",
        randaugment=RandAugment(drawn.operations, drawn.magnitude) if drawn is not None else None,
    )
    return found or None


def check_transform(
    job: Job, data: Data, sources: Mapping[str, Source], diagnostics: Diagnostics
) -> None:
    """Note settings that the data or the net do not allow and settings that replace others, and
    warn of settings that have no effect."""
    for text, keys in _idle(data.augment):
        diagnostics.warn(text, *keys)
    for phase, source in sources.items():
        for text, keys in _mistakes(job, phase, source):
            diagnostics.problem(text, *keys)
        for text, keys in _doubts(job, source):
            diagnostics.warn(text, *keys)
        for text, keys in _replaced(job, phase):
            diagnostics.fact(text, *keys)
    default = type(data).model_fields["orientation"].default
    if data.orientation != default and not _turnable(job):
        text = "has no effect: no source has image files or encoded records, or each has its own"
        diagnostics.warn(text, *SECTION, "orientation")


def _turnable(job: Job) -> bool:
    """Whether `train.data.orientation` is for a source of some phase, or a net that cannot be read
    may have such a source."""
    base = Path(job.base_directory)
    for phase, config in job.data.items():
        try:
            layers = () if is_one(config) else job.data_layers(phase)
            net_dir = job.spec(phase).path.parent if layers else Path()
        except NetError:
            return True
        if takes_orientation(config, base, layers, net_dir):
            return True
    return False


def _idle(said: Section) -> Iterator[Remark]:
    """Keys that were given without the key that they belong to. A default that is written out, as
    in the config.toml of a run, is no such key."""
    defaults = {key: field.default for key, field in type(said).model_fields.items()}
    for key, needed in NEEDED.items():
        if getattr(said, key) != defaults[key] and not getattr(said, needed):
            yield f"has no effect without {needed}", (*AUGMENT, key)


def _mistakes(job: Job, phase: str, source: Source) -> Iterator[Remark]:
    """The settings that the images of a phase do not allow."""
    augment = job.augment if phase == TRAIN else None
    if len(source.firsts) != 1:
        text = f"found {len(source.firsts)} data layers that read images, expected one"
        given = [(*SECTION, key) for key in KEYS if getattr(job.transform, key)]
        yield from ((text, keys) for keys in (*given, *([AUGMENT] if augment else [])))
        return
    shape = source.shapes[source.firsts[0]]
    for key, text in (*job.transform.mistakes(shape), *_uncropped(job, phase)):
        yield text, (*SECTION, key)
    if not augment:
        return
    for key, text in augment.mistakes(shape):
        yield text, (*AUGMENT, key) if key else AUGMENT
    if augment.randaugment is not None and (found := _dtype(source)) not in (None, np.uint8):
        yield f"found images of {found}, expected bytes (uint8)", (*AUGMENT, "randaugment")
    yield from _unmixable(job, augment, source)


def _uncropped(job: Job, phase: str) -> Iterator[tuple[str, str]]:
    """The mistake of a crop for a data layer that cannot have one."""
    try:
        layers = job.data_layers(phase)
    except NetError:
        return  # a net that cannot be read is reported by itself
    if job.transform.crop and layers and first_transforming(layers) is None:
        proto = layers[0].proto
        yield (
            "crop",
            f"found {job.transform.crop}, but layer '{proto.name}' of type '{proto.type}' has no "
            f"transform_param, expected a data layer of one of the types {', '.join(TRANSFORMING)}",
        )


def _unmixable(job: Job, augment: Augment, source: Source) -> Iterator[Remark]:
    """The reasons why images cannot be mixed."""
    for key in ("mixup", "cutmix"):
        if not getattr(augment, key):
            continue
        try:
            layers = job.data_layers(TRAIN)
            text = no_labels(layers, source)
            if not text:
                tops = [top for layer in layers for top in layer.proto.top]
                text = hard_loss(job.spec(TRAIN), tops[LABELS])
        except NetError:
            return  # a net that cannot be read is reported by itself
        if text:
            yield text, (*AUGMENT, key)
        elif job.batch == 1:
            text = "found a batch of 1 image, expected at least 2: each is mixed with another one"
            yield text, (*AUGMENT, key)


def _doubts(job: Job, source: Source) -> Iterator[Remark]:
    """Numbers on another scale than the images."""
    for key in ("mean", "deviation"):
        if 0 < max(getattr(job.transform, key), default=0) < 1 and _dtype(source) == np.uint8:
            text = (
                "found only numbers below 1, but the images have bytes from 0 to 255: multiply "
                "numbers of images from 0 to 1 by 255"
            )
            yield text, (*SECTION, key)


def _replaced(job: Job, phase: str) -> Iterator[Remark]:
    """Settings that replace a setting of the net."""
    try:
        layers = dataclasses.replace(job, transform=TransformKeys()).data_layers(phase)
    except NetError:
        return
    for layer in layers:
        for key, text in job.transform.replaced(layer):
            yield text, (*SECTION, key)
        if phase == TRAIN and job.augment and (text := flip_replaces(job.augment, layer)):
            yield text, (*AUGMENT, "flip")


def _dtype(source: Source) -> np.dtype[Any] | None:
    """The type of the numbers of a source's images; None if the first one is damaged, which is
    reported elsewhere."""
    try:
        return source.read(np.zeros(1, np.int64))[0].dtype
    except DataError:
        return None

"""The transforms of a phase's data: those of the net's data layers, with the keys of [train.data]
in place of their settings, and the random changes of training images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path

from nets import NetError, NetSpec
from nets.data import Augment, Mixing, Source, Transform, TransformKeys, first_transforming
from nets.data.augmentation.mixing import LABELS
from nets.graph.classes import classes_of
from nets.graph.inputs import DataLayers, data_layers, promised

# shape of samples: the first top's, or each top's by name
InputShape = tuple[int, ...] | dict[str, tuple[int, ...]]


def transforms_of(
    layers: DataLayers,
    directory: Path,
    source: Source,
    keys: TransformKeys,
    augment: Augment | None,
) -> list[Transform]:
    """The transform of each data layer, or only one if all layers read one source. `directory` is
    the net's folder. `augment`: the random changes; None outside training.

    Raises NetError if there are keys or changes, and several layers: arrays that belong together
    would be changed differently.
    """
    mine = layers if len(source.firsts) == len(layers) else [first_transforming(layers)]
    order = keys.order or source.order
    found = [
        Transform.of_layer(layer, directory).taking(order) if layer else Transform()
        for layer in mine
    ]
    if not keys and not augment:
        return found
    if len(found) != 1:
        said = "train.data.augment" if augment else "train.data: crop, mean, deviation"
        raise NetError(f"{said}: found {len(found)} data layers that read images, expected one")
    transform = keys.on(found[0])
    if not augment:
        return [transform]
    own = replace(augment, order="rgb" if transform.turned else order)
    return [replace(transform, augment=own, mirror=transform.mirror or bool(augment.flip))]


def no_labels(layers: DataLayers, source: Source) -> str:
    """Return the reason why images of this source cannot be mixed, "" if they can."""
    tops = [top for layer in layers for top in layer.proto.top]
    shapes = source.shapes[: len(tops)]
    if len(shapes) > LABELS and prod(shapes[LABELS]) == 1:
        return ""
    found = f"of shape {shapes[LABELS]}" if len(shapes) > LABELS else "none"
    return (
        f"found labels: {found}, expected the number of a class for each image, which a data layer "
        "gives to its second top"
    )


def mixing_of(augment: Augment | None, spec: NetSpec, source: Source, batch: int) -> Mixing | None:
    """The mixing of training images; None without any. Raises NetError if the data have no labels
    of classes."""
    if augment is None or not augment.mixes:
        return None
    layers = data_layers(spec)
    if text := no_labels(layers, source):
        raise NetError(f"train.data.augment: mixup, cutmix: {text}")
    classes = classes_of(spec, batch, promised(layers, source))
    return Mixing(augment.mixup, augment.cutmix, classes, batch)


def with_soft_labels(
    augment: Augment | None, spec: NetSpec, shape: InputShape, batch: int
) -> InputShape:
    """The shapes of samples. The labels of mixed images have a probability for each class."""
    if augment is None or not augment.mixes:
        return shape
    tops = [top for layer in data_layers(spec) for top in layer.proto.top]
    known = dict(shape) if isinstance(shape, Mapping) else {tops[0]: shape}
    label = tops[LABELS : LABELS + 1]
    return known | dict.fromkeys(label, (classes_of(spec, batch, shape),))

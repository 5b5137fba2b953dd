"""A net for training, changed for other images: its data layers read lists of image files, and its
last layers have as many outputs as there are classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format

from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError
from nets.layers import kind_of
from nets.schema import caffe_pb2 as caffe

BLOCKS = {"InnerProduct": "inner_product_param", "Convolution": "convolution_param"}


@dataclass(frozen=True)
class OtherClasses:
    """The `text` of the changed net as a prototxt. `fresh`: the layers whose outputs have changed.
    `crop`: the side of the square that the net reads; 0: whole images."""

    text: str
    fresh: tuple[str, ...]
    crop: int


def for_classes(
    spec: NetSpec, classes: int, batches: tuple[int, int], directory: Path
) -> OtherClasses:
    """Return `spec`, a net for training with the layers of all phases, for images of so many
    classes.

    `batches`: the sizes of a batch in training and in tests. `directory`: the folder of the new
    file. Raises NetError for a net without data layers, or without a loss over the outputs of a
    layer.
    """
    proto = caffe.NetParameter()
    proto.CopyFrom(spec.proto)
    train = spec.for_phase("TRAIN").layers
    fresh = tuple(dict.fromkeys(_scoring(train, spec.path.name)))
    crops = [
        _reads_images(layer, batches, spec.path.parent, directory)
        for layer in proto.layer
        if layer.type != "Input" and _is_source(layer, spec)
    ]
    if not crops:
        raise NetError(
            f"{spec.path.name}: found no data layer, expected a net for training: with data layers "
            "and a loss"
        )
    for layer in proto.layer:
        if layer.name in fresh:
            getattr(layer, BLOCKS[layer.type]).num_output = classes
    kept = [layer for layer in proto.layer if not _counts_too_many(layer, classes)]
    del proto.layer[:]
    proto.layer.extend(kept)
    return OtherClasses(text_format.MessageToString(proto), fresh, max(crops))


def _scoring(layers: tuple[LayerSpec, ...], file: str) -> Iterator[str]:
    """The names of the layers whose outputs are the scores of the losses."""
    makers = {top: layer for layer in layers for top in layer.proto.top if _new(layer, top)}
    losses = [layer for layer in layers if _is_loss(layer)]
    if not losses:
        raise NetError(f"{file}: found no loss, expected a net for training, with a loss")
    for loss in losses:
        maker = makers.get(loss.proto.bottom[0])
        while maker is not None and maker.proto.type not in BLOCKS and maker.proto.bottom:
            maker = makers.get(maker.proto.bottom[0])
        if maker is None or maker.proto.type not in BLOCKS:
            text = f"the scores of loss '{loss.proto.name}' do not come from an InnerProduct or a "
            raise NetError(f"{file}: {text}Convolution, whose num_output would be the classes")
        yield maker.proto.name


def _new(layer: LayerSpec, top: str) -> bool:
    """Whether the layer makes this blob, and does not only change it in place."""
    return top not in layer.proto.bottom


def _is_loss(layer: LayerSpec) -> bool:
    kind = kind_of(layer)
    return kind is not None and kind.scores and kind.differentiable


def _is_source(layer: caffe.LayerParameter, spec: NetSpec) -> bool:
    kind = kind_of(LayerSpec(layer, spec.where))
    return kind is not None and kind.is_source


def _reads_images(
    layer: caffe.LayerParameter, batches: tuple[int, int], before: Path, directory: Path
) -> int:
    """Turn a data layer into one that reads lists of images. Return its crop."""
    phases = {caffe.Phase.Name(rule.phase) for rule in layer.include if rule.HasField("phase")}
    layer.type = "ImageData"
    for block in ("data_param", "hdf5_data_param", "memory_data_param", "image_data_param"):
        layer.ClearField(block)
    layer.image_data_param.batch_size = batches[1] if phases == {"TEST"} else batches[0]
    mean = layer.transform_param.mean_file
    if mean and (before / mean).is_file():
        layer.transform_param.mean_file = os.path.relpath(before / mean, directory.resolve())
    return int(layer.transform_param.crop_size)


def _counts_too_many(layer: caffe.LayerParameter, classes: int) -> bool:
    """Whether the layer counts scores among the best k of no more than k classes."""
    return layer.type == "Accuracy" and layer.accuracy_param.top_k >= max(2, classes)

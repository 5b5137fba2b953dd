"""The deployment of a weights file, made of the facts in the file and the facts that a user
gives, which complete or replace them."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data import Transform
from nets.data.sources.images import check_options
from nets.definition.spec import NetSpec
from nets.errors import NetError
from nets.files import checkpoint
from nets.files.mean import read_mean
from nets.files.shared import Weights
from nets.files.torch_files import is_torchs
from nets.graph.inputs import data_layers
from nets.predict.deployment import KEY, ORDERS, Deployment, Given, Seen
from nets.schema import caffe_pb2 as caffe
from nets.zoo.image_sizes import image_size

CAFFES_SIZE = 256  # the size that Caffe's classify resizes to before it crops


def deployment_of(files: Sequence[Path]) -> Deployment | None:
    """Return the deployment in the files of one net, None if no file has one. Of several the last
    one counts, as for layers; a warning tells if they differ. Raises CheckpointError if one is
    damaged."""
    texts = {
        path: text
        for path in files
        if path.suffix == ".safetensors"
        and not is_torchs(path)
        and (text := checkpoint.metadata(path).get(KEY)) is not None
    }
    if not texts:
        return None
    *others, (last, said) = texts.items()
    if differ := [str(path) for path, text in others if text != said]:
        logging.getLogger("nets").warning(
            "the description of the net in %s replaces that in %s", last, ", ".join(differ)
        )
    return Deployment.from_text(said, last.name)


def completed(said: Deployment | None, given: Given, weights: Weights, file: str) -> Deployment:
    """Return the deployment of `weights`. Raises NetError if facts are missing or wrong."""
    if given.size is not None:
        check_options("size", *given.size, "color", "exif")
    if given.crop is not None and given.crop < 0:
        raise NetError(f"crop: found {given.crop}, expected an integer >= 0")
    if given.net is not None:
        said = _of_net(given.net, given, weights)
    if said is None:
        raise NetError(
            f"{file}: the file does not name its net: give the net (--net, a prototxt or "
            "a name of the zoo), "
            "and the transform of images if the net does not have it (--mean, --scale, "
            "--crop, --size)"
        )
    order = given.order or said.order
    if given.order and ORDERS.get(given.order) != said.shape[0]:
        raise NetError(
            f"order: found '{given.order}', but the net reads images of "
            f"{counted(said.shape[0], 'channel')}"
        )
    transform = _as_given(said.transform, given)
    shape = (said.shape[0], *given.size) if given.size else said.shape
    found = dataclasses.replace(
        said,
        order=order,
        shape=shape,
        transform=transform,
        classes=given.classes or said.classes,
        orientation=given.orientation or said.orientation,
    )
    transform.check(shape)
    return found


def _of_net(spec: NetSpec, given: Given, weights: Weights) -> Deployment:
    """Make the deployment from the layers of a net and from the weights, which give the number of
    channels."""
    net = spec.for_phase("TEST")
    layers = data_layers(net)
    if not layers:
        raise NetError(
            f"{spec.path.name}: found no data layer and no input, expected one that takes images"
        )
    first = layers[0].proto
    transform = _as_given(Transform.of_net(net, "TEST"), given)
    if first.type == "Input" and first.input_param.shape:
        inside = tuple(int(size) for size in first.input_param.shape[0].dim[1:])
    else:
        inside = _image(net, first.top[0], transform, given, weights)
    outside = given.size or transform.size or _outside(inside, transform)
    # crop as Caffe's classify does
    if not transform.crop and outside != inside[1:] and len(set(inside[1:])) == 1:
        transform = dataclasses.replace(transform, crop=inside[-1])
    shape = (inside[0], *outside) if len(inside) == 3 else inside
    known = {top: () for layer in layers for top in layer.proto.top}
    inputs = {**known, **_declared(layers[0].proto), first.top[0]: inside}
    seen = Seen(
        shape, given.order or ("gray" if inside[:1] == (1,) else "bgr"), given.classes, inputs
    )
    return Deployment.of(net, seen, transform)


def _as_given(transform: Transform, given: Given) -> Transform:
    """Return the transform with the user's settings in place of its own."""
    said: dict[str, Any] = {"scale": given.scale, "crop": given.crop}
    said = {key: value for key, value in said.items() if value is not None}
    if given.scale is not None:
        said["deviation"] = ()
    if given.mean is not None:
        image = isinstance(given.mean, np.ndarray)
        said |= {"mean": () if image else given.mean, "mean_image": given.mean if image else None}
    return dataclasses.replace(transform, **said)


def _image(
    net: NetSpec, top: str, transform: Transform, given: Given, weights: Weights
) -> tuple[int, int, int]:
    """Return (C, H, W) of an image as a data layer gives it to the net."""
    crop = (transform.crop,) * 2 if transform.crop else None
    size = crop or given.size or transform.size or image_size(net)
    if size is None:
        text = "the net does not give the size of its images: give --size HEIGHTxWIDTH"
        raise NetError(f"{net.path.name}: {text}")
    return _channels(net, top, given, weights), *size


def _channels(net: NetSpec, top: str, given: Given, weights: Weights) -> int:
    """Return the number of channels: from the weights of the first layer, from the given order, or
    from the net."""
    for layer in net.layers:
        if (
            top in layer.proto.bottom
            and layer.proto.type == "Convolution"
            and layer.proto.name in weights
        ):
            return int(weights[layer.proto.name][0].shape[1]) * max(
                1, layer.proto.convolution_param.group
            )
    return ORDERS.get(given.order, 3)


def _outside(inside: tuple[int, ...], transform: Transform) -> tuple[int, ...]:
    """Return the default size that images are resized to: the net's size; if the net crops, the
    mean image's size or Caffe's."""
    if transform.mean_image is not None:
        return transform.mean_image.shape[1:]
    return (max(CAFFES_SIZE, transform.crop),) * 2 if transform.crop else inside[1:]


def _declared(proto: caffe.LayerParameter) -> Mapping[str, tuple[int, ...]]:
    shapes = [tuple(int(size) for size in shape.dim[1:]) for shape in proto.input_param.shape]
    shapes = shapes * len(proto.top) if len(shapes) == 1 else shapes
    return dict(zip(proto.top, shapes, strict=False))


def mean_given(text: str) -> tuple[float, ...] | NDArray[Any]:
    """Return a text such as "104,117,123" as numbers. Any other text is the name of a .binaryproto
    file. Raises NetError if it is neither."""
    if re.fullmatch(r"[-+0-9.eE, ]+", text):
        try:
            return tuple(float(part) for part in text.split(","))
        except ValueError:
            raise NetError(
                f"--mean: found '{text}', expected numbers, or a .binaryproto file"
            ) from None
    return read_mean(Path(text))

"""The facts for using a weights file: the net, the transform of an image before it, and the names
of its classes.

Training keeps them in every checkpoint, as JSON under one key of the metadata. Other files have
none; then the user gives them (`Given`).

    {"version": 1, "net": prototxt, "output": blob, "shape": [C, H, W], "order": "bgr",
     "orientation": "exif", "classes": [...],
     "transform": {"scale", "mean", "crop", "mean_image": {"shape", "float32": base64}}}

Version 2 has "deviation" in its transform, too.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray

from nets.data import Transform
from nets.data.decoding.decode import ORIENTATIONS
from nets.definition.spec import NetSpec, read_text
from nets.errors import CheckpointError, NetError
from nets.layers.base import Shape
from nets.predict.deployed import deployed, net_of

PLAIN = Transform()
KEY = "deployment"
VERSION = 1
WITH_DEVIATION = 2  # a program that knows only version 1 would leave out the deviation
ENDINGS = ("Softmax", "Sigmoid")  # layers whose results are probabilities
EXIF = ORIENTATIONS[0]  # the default: photographs are turned as their EXIF says
ORDERS = {"bgr": 3, "rgb": 3, "gray": 1}  # orders of an image's planes -> number of planes


@dataclass(frozen=True)
class Seen:
    """The facts that training knows about its data: the `shape` of an image before any transform,
    the `order` of its planes, the names of its classes (if known), the shape of one row of each
    input of the net, and whether images are turned as their EXIF says (`orientation`)."""

    shape: tuple[int, ...] = ()
    order: str = "bgr"
    classes: tuple[str, ...] = ()
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    orientation: str = EXIF


@dataclass(frozen=True)
class Given:
    """The facts that a user gives, which complete or replace the facts in a file.

    `size`: (height, width) that images are resized to. `mean`: one number, one per channel, or a
    mean image (C, H, W).
    """

    net: NetSpec | None = None
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] | NDArray[np.float32] | None = None
    scale: float | None = None
    crop: int | None = None
    size: tuple[int, int] | None = None
    order: str = ""
    orientation: str = ""


@dataclass(frozen=True)
class Deployment:
    """The facts in the module docstring. `shape` is the shape of an image before the transform;
    images of other sizes are resized."""

    net: NetSpec
    output: str
    shape: Shape
    order: str = "bgr"
    classes: tuple[str, ...] = ()
    transform: Transform = PLAIN
    orientation: str = EXIF

    @classmethod
    def of(cls, spec: NetSpec, seen: Seen, transform: Transform) -> Self:
        """Return the deployment of a net in training. `spec` has the layers of one phase."""
        proto, output = deployed(spec, seen.inputs)
        net = net_of(text_format.MessageToString(proto), spec.path.name)
        return cls(
            net,
            output,
            tuple(seen.shape),
            "rgb" if transform.rgb else seen.order,
            tuple(seen.classes),
            _in_use(transform),
            seen.orientation,
        )

    @property
    def ending(self) -> str:
        """The type of the layer that makes the output if it is a Softmax or a Sigmoid, else ""."""
        makers = [layer.proto for layer in self.net.layers if self.output in layer.proto.top]
        kind = makers[-1].type if makers else ""
        return kind if kind in ENDINGS else ""

    def to_text(self) -> str:
        """Return the text for a checkpoint's metadata."""
        transform = self.transform
        facts: dict[str, Any] = {
            "scale": transform.scale,
            "mean": list(transform.mean),
            "crop": transform.crop,
        }
        if transform.mean_image is not None:
            image = np.ascontiguousarray(transform.mean_image, "<f4")
            facts["mean_image"] = {
                "shape": image.shape,
                "float32": base64.b64encode(image.tobytes()).decode(),
            }
        if transform.deviation:
            facts["deviation"] = list(transform.deviation)
        said = {
            "version": WITH_DEVIATION if transform.deviation else VERSION,
            "net": text_format.MessageToString(self.net.proto),
            "output": self.output,
            "shape": list(self.shape),
            "order": self.order,
            "orientation": self.orientation,
            "classes": list(self.classes),
            "transform": facts,
        }
        return json.dumps(said, sort_keys=True)

    @classmethod
    def from_text(cls, text: str, file: str) -> Self:
        """Read the text of `to_text`. Raises CheckpointError, which names the file."""
        try:
            said = json.loads(text)
            version = said.get("version")
        except (ValueError, AttributeError, RecursionError):
            raise CheckpointError(f"{file}: '{KEY}': not a JSON object") from None
        if version not in (VERSION, WITH_DEVIATION):
            raise CheckpointError(
                f"{file}: '{KEY}': found version {version!r}, expected "
                f"{VERSION} or {WITH_DEVIATION}: give --net instead"
            )
        try:
            return cls(
                net=net_of(str(said["net"]), file),
                output=str(said["output"]),
                shape=tuple(int(size) for size in said["shape"]),
                order=_known("order", str(said["order"]), ORDERS),
                # checkpoints of earlier versions do not name it
                orientation=_known("orientation", str(said.get("orientation", EXIF)), ORIENTATIONS),
                classes=tuple(str(name) for name in said["classes"]),
                transform=_transform(said["transform"]),
            )
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            if isinstance(error, NetError):
                raise
            raise CheckpointError(
                f"{file}: '{KEY}': damaged: {type(error).__name__}: {error}"
            ) from None


def _in_use(transform: Transform) -> Transform:
    """Return the transform without the settings that concern only training or the data source."""
    return Transform(
        transform.scale,
        transform.mean,
        transform.crop,
        mean_image=transform.mean_image,
        deviation=transform.deviation,
    )


def _known(key: str, said: str, known: Collection[str]) -> str:
    if said not in known:
        raise ValueError(f"{key}: found '{said}', expected one of {', '.join(known)}")
    return said


def _transform(said: Mapping[str, Any]) -> Transform:
    image = None
    if (kept := said.get("mean_image")) is not None:
        numbers = np.frombuffer(base64.b64decode(kept["float32"], validate=True), "<f4")
        image = numbers.reshape([int(size) for size in kept["shape"]]).astype(np.float32)
    mean = tuple(float(value) for value in said["mean"])
    deviation = tuple(float(value) for value in said.get("deviation", ()))
    if not all(0 < value < math.inf for value in deviation):
        raise ValueError(f"deviation: found {list(deviation)}, expected finite numbers > 0")
    return Transform(
        float(said["scale"]), mean, int(said["crop"]), mean_image=image, deviation=deviation
    )


def read_classes(path: Path) -> tuple[str, ...]:
    """Return the names of classes in a text file: one per line, in the order of their numbers.
    Raises NetError if it cannot be read."""
    return names_in(read_text(path).split("\n"), path.name)


def names_in(lines: Sequence[str], file: str) -> tuple[str, ...]:
    """Return the names of classes, one per line. Empty lines at the end are ignored."""
    names = [line.strip() for line in lines]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise NetError(f"{file}: found no line, expected the name of one class per line")
    return tuple(names)

"""What a weights file says of its use: the net, what is done to an image before it, what its
classes are called.

Training keeps it in every checkpoint, as JSON under one key of the metadata. Other files have none;
then who predicts says what there is to say (`Given`).

    {"version": 1, "net": prototxt, "output": blob, "shape": [C, H, W], "order": "bgr",
     "classes": [...],
     "transform": {"scale", "mean", "crop", "mean_image": {"shape", "float32": base64}}}
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray

from nets.data import Transform
from nets.definition.spec import NetSpec, read_text
from nets.errors import CheckpointError, NetError
from nets.layers.base import Shape
from nets.predict.deployed import deployed, net_of

PLAIN = Transform()
KEY = "deployment"
VERSION = 1
ORDERS = {"bgr": 3, "rgb": 3, "gray": 1}  # of an image's planes, and how many there are


@dataclass(frozen=True)
class Seen:
    """What training saw of its data: `shape` of an image before any transform, the `order` of its
    planes, the names of its classes (perhaps none), and the shape of one row of each input of the
    net."""

    shape: tuple[int, ...] = ()
    order: str = "bgr"
    classes: tuple[str, ...] = ()
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """What a person says of a file that does not say it itself, or says instead of it. `size`:
    (height, width) that images are resized to; `mean`: one number, or one per channel, or a mean
    image (C, H, W)."""

    net: NetSpec | None = None
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] | NDArray[np.float32] | None = None
    scale: float | None = None
    crop: int | None = None
    size: tuple[int, int] | None = None
    order: str = ""


@dataclass(frozen=True)
class Deployment:
    """See the module docstring. `shape` is that of an image before the transform: images of other
    sizes are resized."""

    net: NetSpec
    output: str
    shape: Shape
    order: str = "bgr"
    classes: tuple[str, ...] = ()
    transform: Transform = PLAIN

    @classmethod
    def of(cls, spec: NetSpec, seen: Seen, transform: Transform) -> Self:
        """Of a net that is trained: its layers of one phase."""
        proto, output = deployed(spec, seen.inputs)
        net = net_of(text_format.MessageToString(proto), spec.path.name)
        return cls(
            net, output, tuple(seen.shape), seen.order, tuple(seen.classes), _in_use(transform)
        )

    def to_text(self) -> str:
        """As it stands in a checkpoint's metadata."""
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
        said = {
            "version": VERSION,
            "net": text_format.MessageToString(self.net.proto),
            "output": self.output,
            "shape": list(self.shape),
            "order": self.order,
            "classes": list(self.classes),
            "transform": facts,
        }
        return json.dumps(said, sort_keys=True)

    @classmethod
    def from_text(cls, text: str, file: str) -> Self:
        """Read what `to_text` wrote; CheckpointError names the file."""
        try:
            said = json.loads(text)
            version = said.get("version")
        except (ValueError, AttributeError, RecursionError):
            raise CheckpointError(f"{file}: '{KEY}': not a JSON object") from None
        if version != VERSION:
            raise CheckpointError(
                f"{file}: '{KEY}': found version {version!r}, expected "
                f"{VERSION}: give --net instead"
            )
        try:
            return cls(
                net=net_of(str(said["net"]), file),
                output=str(said["output"]),
                shape=tuple(int(size) for size in said["shape"]),
                order=_order(str(said["order"])),
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
    """Without what concerns training only, or the data source."""
    return Transform(
        transform.scale, transform.mean, transform.crop, mean_image=transform.mean_image
    )


def _order(said: str) -> str:
    if said not in ORDERS:
        raise ValueError(f"order: found '{said}', expected one of {', '.join(ORDERS)}")
    return said


def _transform(said: Mapping[str, Any]) -> Transform:
    image = None
    if (kept := said.get("mean_image")) is not None:
        numbers = np.frombuffer(base64.b64decode(kept["float32"], validate=True), "<f4")
        image = numbers.reshape([int(size) for size in kept["shape"]]).astype(np.float32)
    mean = tuple(float(value) for value in said["mean"])
    return Transform(float(said["scale"]), mean, int(said["crop"]), mean_image=image)


def read_classes(path: Path) -> tuple[str, ...]:
    """The names of classes in a text file: one a line, in the order of their numbers. NetError if
    it cannot be read."""
    return names_in(read_text(path).split("\n"), path.name)


def names_in(lines: Sequence[str], file: str) -> tuple[str, ...]:
    """Names of classes, one a line; empty lines at the end count for nothing."""
    names = [line.strip() for line in lines]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise NetError(f"{file}: found no line, expected the name of a class a line")
    return tuple(names)

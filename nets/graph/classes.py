"""The inputs of a net that are numbers of classes or of words, and their allowed ranges. Also the
number of a net's classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.definition.spec import LayerSpec, NetSpec
from nets.errors import NetError
from nets.graph.graph import Net
from nets.layers import kind_of
from nets.layers.base import KINDS, Shape
from ops import get_backend

EMBED = "Embed"  # the type whose input is a number, without being a loss


@dataclass(frozen=True)
class Numbers:
    """An input `blob` of `layer`: whole numbers from 0 to `count` - 1, or `ignored`. If `soft`, the
    layer takes probabilities of the classes in their place. `of`: the things that are numbered."""

    layer: str
    blob: str
    count: int
    ignored: int | None = None
    soft: bool = False
    of: str = "class"

    def mistake(self, found: NDArray[Any], place: Callable[[float], str] | None = None) -> str:
        """Return a text about the first number outside the range, "" if there is none. It begins
        with the `place` of this number."""
        wrong = (found < 0) | (found >= self.count) | (found != np.floor(found))
        if self.ignored is not None:
            wrong &= found != self.ignored
        if not wrong.any():
            return ""
        number = found[wrong].reshape(-1)[0].item()
        return (
            f"{f'{place(number)}: ' if place else ''}'{self.blob}' holds {number:g}, but layer "
            f"'{self.layer}' takes whole numbers from 0 to {self.count - 1} "
            f"({counted(self.count, self.of)})"
        )


def numbers_of(net: Net) -> Iterator[Numbers]:
    """Yield the numbered inputs of a whole net."""
    for layer in (node.layer for stage in net.stages for node in stage.nodes):
        at = getattr(layer, "labels", None)
        count = getattr(layer, "classes", None)
        if at is not None and count is not None:
            ignored, soft = (getattr(layer, key, None) for key in ("ignore", "soft"))
            yield Numbers(layer.name, layer.proto.bottom[at], count, ignored, bool(soft))
        elif layer.proto.type == EMBED:
            yield Numbers(layer.name, layer.proto.bottom[0], layer.params[0].shape[0], of="word")


def unknown_numbers(
    net: Net,
    samples: Mapping[str, NDArray[Any]],
    place: Callable[[float], str] | None = None,
) -> list[str]:
    """Return a text for each input in `samples` that has numbers which the net's layers would
    refuse. It begins with the `place` of the first such number, if this is given. Samples that are
    probabilities already are not numbers of classes."""
    texts = (
        numbers.mistake(samples[numbers.blob], place)
        for numbers in numbers_of(net)
        if numbers.blob in samples
        and not (numbers.soft and samples[numbers.blob].shape[1:] == net.row_shape(numbers.blob))
    )
    return list(dict.fromkeys(filter(None, texts)))


def classes_of(spec: NetSpec, batch: int, input_shape: Shape | Mapping[str, Shape]) -> int:
    """Return the number of classes of a net of one phase: the scores of a row that its last loss
    reads. The shapes of labels do not matter. Raises NetError if the net has no loss, or several
    labels for a row."""
    losses = [layer for layer in spec.layers if _judges(layer) and layer.proto.type != "Accuracy"]
    if not losses:
        raise NetError(f"{spec.path.name}: found no loss, expected one that compares classes")
    rest = tuple(layer for layer in spec.layers if not _judges(layer))
    net = Net(
        replace(spec, layers=rest),
        spec.phase,
        ops=get_backend("numpy"),
        batch=batch,
        input_shape=input_shape,
    )
    scores = losses[-1].proto.bottom[0]
    shape = net.shape(scores)
    if len(shape) < 2 or prod(shape[2:]) != 1:
        raise NetError(
            f"{spec.path.name}: found scores '{scores}' of shape {shape}, expected (N, classes): "
            "one label for each image"
        )
    return int(shape[1])


def hard_loss(spec: NetSpec, label: str) -> str:
    """Return a text about the first loss, or other layer that takes numbers of classes, that reads
    the blob `label` and takes no probabilities of the classes, "" if there is none."""
    for layer in spec.layers:
        proto, kind = layer.proto, kind_of(layer)
        hard = proto.type == EMBED or (kind and kind.scores and not kind.takes_soft)
        if hard and label in proto.bottom:
            soft = [name for name, one in KINDS.items() if one.takes_soft and one.differentiable]
            return (
                f"layer '{proto.name}' of type '{proto.type}' takes one class for each image, "
                f"expected a loss that takes probabilities of the classes: {', '.join(soft)}"
            )
    return ""


def _judges(layer: LayerSpec) -> bool:
    kind = kind_of(layer)
    return kind is not None and kind.scores

"""The layers of a net that whiten the patches of images (the filler `whitening`), and their
weights for given images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import WHITENING, FloatArray, filters_and_negatives
from nets.definition.whitening import covariance, whitening_filters
from nets.graph.graph import Net
from nets.layers.base import Layer
from nets.layers.conv import Convolution


def whitening_layers(net: Net) -> list[Layer]:
    """The layers whose weights have the filler."""
    return [
        node.layer
        for node in net.nodes
        if any(param.filler.type == WHITENING for param in node.layer.params)
    ]


def whitening_of(net: Net, images: Mapping[str, NDArray[np.float32]]) -> dict[str, list[float]]:
    """Return the filters of each whitening layer, row after row, for images (N, C, H, W) by the
    name of the net's input. Raises NetError for a layer that does not read images."""
    found = {}
    for layer in whitening_layers(net):
        bottom = layer.proto.bottom[0]
        if not isinstance(layer, Convolution) or bottom not in images:
            text = f"'{WHITENING}' reads blob '{bottom}', expected a Convolution of training images"
            raise layer.error("weight_filler", text)
        geometry = layer.geometry
        if geometry.groups != 1 or geometry.dilation != (1, 1):
            text = f"'{WHITENING}': found group {geometry.groups} and dilation {geometry.dilation}"
            raise layer.error("weight_filler", f"{text}, expected 1 and (1, 1)")
        filters = whitening_filters(covariance(images[bottom], geometry.kernel))
        numbers: list[float] = filters.ravel().tolist()
        found[layer.name] = numbers
    return found


def whitened(shape: tuple[int, ...], numbers: Sequence[float]) -> NDArray[Any]:
    """Return the weights of `shape` with these filters, from `whitening_of`, float64."""
    size = math.prod(shape[1:])
    filters: FloatArray = np.reshape(numbers, (size, size))
    return filters_and_negatives(filters, shape)

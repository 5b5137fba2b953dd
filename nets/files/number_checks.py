"""Checks of the numbers in files of weights: that they are finite, and running variances are not
negative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.params import ParamSpec
from nets.errors import NetError

SHOWN = 4  # mistakes in a line


def finite(file: str, arrays: Mapping[str, Sequence[NDArray[Any]]]) -> None:
    """Raise NetError for arrays with NaN or infinities: the training that wrote them diverged."""
    wrong = [
        f"'{name}'"
        for name, blobs in arrays.items()
        if not all(np.isfinite(blob).all() for blob in blobs)
    ]
    if wrong:
        more = ", ..." if len(wrong) > SHOWN else ""
        raise NetError(
            f"{file}: {', '.join(wrong[:SHOWN])}{more}: found numbers that are not finite, so "
            "training has diverged: take a file from before"
        )


def usable(
    file: str,
    blobs: Mapping[str, Sequence[NDArray[Any]]],
    params: Mapping[str, Sequence[ParamSpec]],
) -> None:
    """Raise NetError for blobs of layers with which a net of these `params` cannot compute: numbers
    that are not finite, and negative running variances, whose roots would be NaN."""
    finite(file, blobs)
    check_variances(file, blobs, params)


def check_variances(
    file: str,
    blobs: Mapping[str, Sequence[NDArray[Any]]],
    params: Mapping[str, Sequence[ParamSpec]],
) -> None:
    """Raise NetError for each layer of `blobs` with a negative running variance."""
    problems = [
        f"{file}: {text}"
        for layer, of in blobs.items()
        for text in _negative_variances(layer, of, params[layer])
    ]
    if problems:
        raise NetError(problems)


def _negative_variances(
    layer: str, blobs: Sequence[NDArray[Any]], params: Sequence[ParamSpec]
) -> Iterator[str]:
    """A line about the lowest variance of a layer with running statistics, if it is negative."""
    statistics = {
        param.name: blob
        for param, blob in zip(params, blobs, strict=True)
        if param.keep is not None
    }
    if "variance" not in statistics:
        return
    weight = float(statistics["weight"].reshape(-1)[0])
    variances = statistics["variance"] / weight if weight else np.zeros(1)
    channel = int(variances.argmin())
    if variances[channel] < 0:
        yield (
            f"layer '{layer}': found the running variance {variances[channel]:g} of channel "
            f"{channel}, expected a number >= 0: the file is damaged, or was converted wrongly"
        )

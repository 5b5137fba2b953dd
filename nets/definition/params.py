"""The learnable arrays of a net before training: their names, shapes, multipliers and first values
(Caffe's fillers, `dirac` and `whitening`).

First values depend only on (seed, layer name, blob index), so they are the same in any part of a
net and on any machine. A run replaces those of `whitening`, which depend on its training images.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.prototxt import Where
from nets.errors import NetError, did_you_mean
from nets.schema import caffe_pb2 as caffe

FloatArray = NDArray[np.float64]
WHITENING = "whitening"
MOST_IN_PATCH = 128  # numbers; a run's plan has the square of it


@dataclass(frozen=True)
class ParamSpec:
    """One parameter array: `index` counts the layer's blobs from 0, `name` is "weight", "bias", ...

    `keep` is None for a parameter that the solver learns. A running statistic (BatchNorm's) has
    `keep`, the fraction of its old value that remains at an update: w' = keep * w + g. Its
    "gradient" g is the term that one pass adds, weighted by the pass's share of the whole batch.
    Workers sum these terms, and a parameter server applies them, as if they were gradients.
    """

    layer: str
    index: int
    name: str
    shape: tuple[int, ...]
    filler: caffe.FillerParameter
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    keep: float | None = None

    def initial(self, seed: int, dtype: Any = np.float32) -> NDArray[Any]:
        """Return the first values, an array of `shape`. They depend only on (seed, layer,
        index)."""
        fill = FILLERS[self.filler.type]
        return np.asarray(
            fill(self.shape, self.filler, generator(seed, self.layer, self.index)), dtype
        )


def generator(seed: int, *key: str | int) -> np.random.Generator:
    """Return the random generator for (seed, *key). Every other key has another generator."""
    text = "/".join([str(seed), *(str(part) for part in key)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def check_filler(
    filler: caffe.FillerParameter, shape: tuple[int, ...], where: Where, key: str
) -> None:
    """Raise NetError if `filler` is unknown or cannot fill `shape`."""
    if filler.type not in FILLERS:
        expected = f"expected one of {', '.join(FILLERS)}{did_you_mean(filler.type, FILLERS)}"
        raise NetError(where.problem(f"{key}.type", f"found '{filler.type}', {expected}"))
    for name in ("value", "min", "max", "mean", "std"):
        number = getattr(filler, name)
        if not math.isfinite(number) or (name == "std" and number < 0):
            expected = "a number >= 0" if name == "std" else "a finite number"
            raise NetError(where.problem(f"{key}.{name}", f"found {number:g}, expected {expected}"))
    if filler.type == "uniform" and filler.min > filler.max:
        text = f"found {filler.min:g}, expected at most max, {filler.max:g}"
        raise NetError(where.problem(f"{key}.min", text))
    if filler.type == "bilinear" and (len(shape) != 4 or shape[2] != shape[3]):
        raise NetError(
            where.problem(
                key, (f"filler 'bilinear' on shape {shape}, expected four axes and a square kernel")
            )
        )
    if filler.type == "dirac" and len(shape) < 3:
        text = f"filler 'dirac' on shape {shape}, expected outputs, inputs and a kernel"
        raise NetError(where.problem(key, text))
    patch = math.prod(shape[1:])
    if filler.type == WHITENING and (
        len(shape) != 4 or patch > MOST_IN_PATCH or shape[0] > 2 * patch
    ):
        text = (
            f"filler '{WHITENING}' on shape {shape}, expected four axes, patches of at most "
            f"{MOST_IN_PATCH} numbers, and at most two outputs for each number of a patch"
        )
        raise NetError(where.problem(key, text))


def fan(shape: tuple[int, ...], filler: caffe.FillerParameter) -> float:
    """Return Caffe's divisor: the size per output (FAN_IN), per input channel (FAN_OUT), or the
    mean of both."""
    count = math.prod(shape)
    fan_in = count / shape[0]
    fan_out = count / shape[1] if len(shape) > 1 else count
    norms = caffe.FillerParameter
    chosen = {norms.FAN_IN: fan_in, norms.FAN_OUT: fan_out, norms.AVERAGE: (fan_in + fan_out) / 2}
    return float(chosen[filler.variance_norm])


def _constant(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    return np.full(shape, f.value)


def _uniform(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    return rng.uniform(f.min, f.max, shape)


def _gaussian(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    """Draw from N(mean, std). With sparse >= 0, each weight is kept with probability sparse /
    shape[0] and is 0 otherwise."""
    values = rng.normal(f.mean, f.std, shape)
    if f.sparse >= 0:
        values *= rng.random(shape) < f.sparse / shape[0]
    return values


def _xavier(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    limit = math.sqrt(3.0 / fan(shape, f))
    return rng.uniform(-limit, limit, shape)


def _msra(shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator) -> FloatArray:
    return rng.normal(0.0, math.sqrt(2.0 / fan(shape, f)), shape)


def _positive_unitball(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    """Draw from [0, 1) and divide the weights of every output by their sum."""
    rows = rng.random(shape).reshape(shape[0], -1)
    shares: FloatArray = rows / rows.sum(axis=1, keepdims=True)
    return shares.reshape(shape)


def _bilinear(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    """Return the interpolation kernel with which a Deconvolution enlarges by ceil(width / 2)."""
    factor = math.ceil(shape[3] / 2)
    centre = (shape[3] - 1) / (2.0 * factor)
    ramp: FloatArray = 1.0 - np.abs(np.arange(shape[3]) / factor - centre)
    plane = ramp[:, None] * ramp
    return np.broadcast_to(plane, shape).copy()


def _dirac(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    """Let output n hand on the centre of input n, as far as there are inputs. The weights of
    further outputs are drawn from (-1 / sqrt(fan), 1 / sqrt(fan))."""
    limit = 1 / math.sqrt(fan(shape, f))
    values = rng.uniform(-limit, limit, shape)
    centre = tuple(size // 2 for size in shape[2:])
    for at in range(min(shape[:2])):
        values[at] = 0.0
        values[(at, at, *centre)] = 1.0
    return values


def _whitening(
    shape: tuple[int, ...], f: caffe.FillerParameter, rng: np.random.Generator
) -> FloatArray:
    """Return the filters for white noise, which has nothing to whiten. A run replaces them by those
    of its training images (`nets.definition.whitening`)."""
    return filters_and_negatives(np.eye(math.prod(shape[1:])), shape)


def filters_and_negatives(filters_DD: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the filters of patches, then their negatives, as an array of `shape`."""
    return np.concatenate((filters_DD, -filters_DD))[: shape[0]].reshape(shape)


FILLERS: dict[
    str, Callable[[tuple[int, ...], caffe.FillerParameter, np.random.Generator], FloatArray]
] = {
    "constant": _constant,
    "uniform": _uniform,
    "gaussian": _gaussian,
    "xavier": _xavier,
    "msra": _msra,
    "positive_unitball": _positive_unitball,
    "bilinear": _bilinear,
    "dirac": _dirac,
    WHITENING: _whitening,
}

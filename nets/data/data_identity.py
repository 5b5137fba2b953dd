"""Is it the same data on another machine? A source in a few words, with a checksum of what is
quickly read of it."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from nets.data.source import Source

MOST_NUMBERS = 1 << 20  # of the first array: all of 16 000 digits, 5 photographs of 256 x 256
LEAST = 3  # samples, however large: the first, the last, one between


def identity(source: Source) -> str:
    """Such as "1438 samples (1, 8, 8), checksum 5e1f...": equal for equal data, wherever it lies.
    The checksum is of all samples if they are few, else of some, evenly spread from the first to
    the last, and of what the source holds of the others. DataError for a damaged one."""
    most = min(len(source), max(LEAST, MOST_NUMBERS // max(1, math.prod(source.shape))))
    chosen = np.linspace(0, len(source) - 1, most).astype(np.int64)
    digest = hashlib.blake2b(digest_size=8)
    for part in source.stored(chosen):
        digest.update(part)
    shapes = " ".join(str(shape) for shape in source.shapes if shape)
    return f"{len(source)} samples {shapes}, checksum {digest.hexdigest()}"

"""A short description of a data source, with a checksum of a quick sample of it. It shows whether
another machine has the same data."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from nets.data.sources.source import Source

MOST_NUMBERS = 1 << 20  # numbers of the first array: 16 000 digits or 5 photographs of 256 x 256
LEAST = 3  # samples, even if they are large: the first, the last, one between


def identity(source: Source) -> str:
    """Return a text such as "1438 samples (1, 8, 8), checksum 5e1f...". Equal data give equal
    texts on any machine.

    If the samples are few, the checksum covers all of them. Otherwise it covers some samples,
    evenly spread from the first to the last, and the facts that the source has about the others in
    memory. Raises DataError for a damaged sample.
    """
    most = min(len(source), max(LEAST, MOST_NUMBERS // max(1, math.prod(source.shape))))
    chosen = np.linspace(0, len(source) - 1, most).astype(np.int64)
    digest = hashlib.blake2b(digest_size=8)
    for part in source.stored(chosen):
        digest.update(part)
    shapes = " ".join(str(shape) for shape in source.shapes if shape)
    return f"{len(source)} samples {shapes}, checksum {digest.hexdigest()}"

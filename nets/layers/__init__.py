"""The layer kinds, one file per family; `make_layer` finds the class of a prototxt layer by its type.

What lives here: the import of every family, so that each registers its kinds. What never: wiring between layers
(`graph`) or array arithmetic beyond a line (`ops`).
"""

from nets.layers import (
    affine,
    combine,
    constant,
    conv,
    data,
    dense,
    dropout,
    elementwise,
    loss,
    normalise,
    pool,
    prelu,
    recurrent,
    reduce,
    shape,
    softmax,
)
from nets.layers.base import KINDS, Layer, Run, Setup, Values
from nets.layers.kinds import REFUSED, kind_of, make_layer, settings

__all__ = [
    "KINDS",
    "REFUSED",
    "Layer",
    "Run",
    "Setup",
    "Values",
    "affine",
    "combine",
    "constant",
    "conv",
    "data",
    "dense",
    "dropout",
    "elementwise",
    "kind_of",
    "loss",
    "make_layer",
    "normalise",
    "pool",
    "prelu",
    "recurrent",
    "reduce",
    "settings",
    "shape",
    "softmax",
]

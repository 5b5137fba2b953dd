"""The layer kinds, one file per family; `make_layer` finds the class of a prototxt layer by its type.

What lives here: the import of every family, so that each registers its kinds. What never: wiring between
layers
(`graph`) or array arithmetic beyond a line (`ops`).
"""

from nets.layers import activation, conv, data, dense, loss, pool
from nets.layers.base import KINDS, Layer, Run, Setup, Values, make_layer

__all__ = [
    "KINDS",
    "Layer",
    "Run",
    "Setup",
    "Values",
    "activation",
    "conv",
    "data",
    "dense",
    "loss",
    "make_layer",
    "pool",
]

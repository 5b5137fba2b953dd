"""The methods of every backend, one class per family of operations; `Backend` is all of them
together.

backend                    arrays, and the contract that all operations keep
spatial  statistics        convolution, pooling, dense layers; sums and places over axes
elementwise  losses        single elements and broadcasts; softmax and losses
sequences                  tables and recurrent layers
updates  compression       the solvers; smaller forms of gradients

Here stand signatures and what they mean; the bodies hand the backend's array module to
`ops.reference`. A backend overrides what it does better.
"""

from __future__ import annotations

from ops.interface.compression import CompressionOps
from ops.interface.elementwise import ElementwiseOps
from ops.interface.losses import LossOps
from ops.interface.sequences import SequenceOps
from ops.interface.spatial import SpatialOps
from ops.interface.statistics import StatisticsOps
from ops.interface.updates import UpdateOps

__all__ = [
    "CompressionOps",
    "ElementwiseOps",
    "LossOps",
    "SequenceOps",
    "SpatialOps",
    "StatisticsOps",
    "UpdateOps",
]

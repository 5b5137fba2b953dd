"""The methods of every backend, one class per family of operations; `Backend` is all of them
together.

backend      The contract of an array backend
spatial      Operations that look at neighbours or multiply matrices
statistics   Operations over whole axes
elementwise  Operations that treat elements one by one, or along broadcast axes
losses       Softmax, losses and accuracy
pixels       The transform of images of bytes, as nets read them
sequences    Operations of text and other sequences
updates      Parameter updates of Caffe's solvers and of later optimizers, and the addition of
             gradients
compression  Smaller forms of float32 arrays, for slow links
widened      Operations of bfloat16 images that no kernel takes, for example images in another order
             of axes

This package holds the signatures and their meaning. The bodies hand the backend's array module to
`ops.reference`. A backend overrides the methods for which it has something faster.
"""

from __future__ import annotations

from ops.interface.compression import CompressionOps
from ops.interface.elementwise import ElementwiseOps
from ops.interface.losses import LossOps
from ops.interface.pixels import PixelOps
from ops.interface.sequences import SequenceOps
from ops.interface.spatial import SpatialOps
from ops.interface.statistics import StatisticsOps
from ops.interface.updates import UpdateOps

__all__ = [
    "CompressionOps",
    "ElementwiseOps",
    "LossOps",
    "PixelOps",
    "SequenceOps",
    "SpatialOps",
    "StatisticsOps",
    "UpdateOps",
]

"""The layer kinds, one file per family; `make_layer` finds the class of a prototxt layer by its
type.

base  layer_table  windows     what every layer is; the table in the docs; kernel, stride and pad as Caffe writes them
data  constant           tops fed from outside; tops that a layer makes itself
conv  pool  dense        convolution, pooling, InnerProduct and Embed
recurrent                LSTM, RNN
elementwise  prelu  dropout   activations
normalise  affine        LRN, BatchNorm, MVN; Scale, Bias
combine  shape  reduce   several blobs to one and back, other shapes, sums and places of maxima
loss  softmax            losses and accuracy

Each family's import registers its kinds. The arithmetic is that of `ops`.
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

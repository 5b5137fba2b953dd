"""The layer kinds, one file per family. `make_layer` finds the class of a prototxt layer by its
type.

base         The base class of all layers
data         Layers whose tops are inputs of the net (Caffe's `Data`, `ImageData`, `HDF5Data`,
             `MemoryData`, `Input`)
constant     Layers without bottoms that fill their own tops (Caffe's `DummyData`, `Parameter`)
conv         Convolution (Caffe's `Convolution`): groups, dilation, rectangular kernels
pool         Pooling (Caffe's `Pooling` and `SPP`, by MAX, AVE or STOCHASTIC), and average pooling
             to a given size (`AdaptivePooling`)
dense        Fully connected layers and tables (Caffe's `InnerProduct`, `Embed`)
recurrent    Recurrent layers over whole sequences (Caffe's `LSTM`, `RNN`)
elementwise  Activations and functions of single elements (Caffe's `ReLU`, `ELU`, `Sigmoid`, `TanH`,
             `Power`, `Exp`, `Log`, ...)
gates        Activations that multiply x by a gate between 0 and 1
prelu        ReLU with a learned slope (Caffe's `PReLU`)
dropout      Dropout of values (Caffe's `Dropout`) and of whole rows (`StochasticDepth`)
normalise    Normalisation across or within channels, over a batch or over an image (Caffe's `LRN`,
             `BatchNorm`, `MVN`)
row_norm     Normalisation within a row, with statistics that depend on no other row
affine       Multiplication by factors and addition of biases along some axes (Caffe's `Scale`,
             `Bias`)
combine      Layers that join blobs or split one, as views where possible (Caffe's `Concat`,
             `Slice`, `Eltwise`, ...)
shape        Layers that give the same numbers another shape (Caffe's `Flatten`, `Reshape`, `Crop`,
             `Tile`), as views where possible
reduce       Reductions of many numbers to few (Caffe's `Reduction`, `ArgMax`)
loss         Losses that compare blobs number by number or pair by pair (Caffe's
             `SigmoidCrossEntropyLoss`, `EuclideanLoss`, ...)
softmax      Softmax and the losses of class scores (Caffe's `Softmax`, `SoftmaxWithLoss`,
             `InfogainLoss`), and `Accuracy`
kinds        The search for the class that computes a layer
windows      Reader of the height/width pairs in convolution and pooling parameters
run          One pass as its layers see it: the rows, and random numbers that belong to rows
depthwise    Depthwise convolution, as forks of Caffe name it
arrange      Layers that move numbers to other places
deconv       The transpose of a convolution (Caffe's `Deconvolution`)

Importing a family registers its kinds. The arithmetic is in `ops`.
"""

from nets.layers import (
    affine,
    arrange,
    combine,
    constant,
    conv,
    data,
    deconv,
    dense,
    depthwise,
    dropout,
    elementwise,
    gates,
    loss,
    normalise,
    pool,
    prelu,
    recurrent,
    reduce,
    row_norm,
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
    "arrange",
    "combine",
    "constant",
    "conv",
    "data",
    "deconv",
    "dense",
    "depthwise",
    "dropout",
    "elementwise",
    "gates",
    "kind_of",
    "loss",
    "make_layer",
    "normalise",
    "pool",
    "prelu",
    "recurrent",
    "reduce",
    "row_norm",
    "settings",
    "shape",
    "softmax",
]

"""The layer kinds, one file per family; `make_layer` finds the class of a prototxt layer by its
type.

base         What every layer is
data         Layers whose tops are fed from outside (Caffe's `Data`, `ImageData`, `HDF5Data`,
             `MemoryData`, `Input`)
constant     Layers that make blobs of their own (Caffe's `DummyData`, `Parameter`)
conv         Convolution and its transpose (Caffe's `Convolution`, `Deconvolution`)
pool         Pooling (Caffe's `Pooling`
dense        Fully connected layers and tables (Caffe's `InnerProduct`, `Embed`)
recurrent    Recurrent layers over whole sequences (Caffe's `LSTM`, `RNN`)
elementwise  Activations and functions of single elements (Caffe's `ReLU`, `ELU`, `Sigmoid`, `TanH`,
             `Power`, `Exp`, `Log`, ...)
prelu        ReLU with a learned slope (Caffe's `PReLU`)
dropout      Dropout (Caffe's `Dropout`)
normalise    Normalisation: across or within channels, over a batch, over an image (Caffe's `LRN`,
             `BatchNorm`, `MVN`)
affine       Multiplying and shifting along some axes (Caffe's `Scale`, `Bias`), by parameters or by
             a second bottom
combine      Several blobs to one and one to several, as views where possible (Caffe's `Concat`,
             `Slice`, `Eltwise`, ...)
shape        The same numbers in another shape (Caffe's `Flatten`, `Reshape`, `Crop`, `Tile`), as
             views where possible
reduce       Many numbers to few (Caffe's `Reduction`, `ArgMax`)
loss         Losses that compare blobs number by number or pair by pair (Caffe's
             `SigmoidCrossEntropyLoss`, `EuclideanLoss`, ...)
softmax      Softmax and the losses of class scores (Caffe's `Softmax`, `SoftmaxWithLoss`,
             `InfogainLoss`), and `Accuracy`
kinds        Which class computes a layer
windows      Reads height/width pairs of convolution and pooling parameters

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

"""Nets from graphs of ONNX: a file in, Caffe's layers and their weights out.

net          A net of layers from an ONNX file: the reader's four steps, and its result
model_file   Reader of ONNX files
tensors      Tensors of an ONNX file as NumPy arrays
arithmetic   Converters of sums, products, differences and quotients, with constants and of two
             values
converters   The registry of functions that convert operators of ONNX to layers
folding      Arithmetic of a graph on constants
head         The layers that a graph lacks: the data, the loss and the accuracy
layers_made  The layers that a graph becomes, with their weights, and the values between them
norms        Converters of normalisations
patterns     Compositions of operators that one layer computes
pointwise    Converters of operators that treat each number by itself
products     Converters of products with a matrix of parameters
reductions   Converters of means, sums and maxima along axes
shapes       Converters of operators that give numbers another shape, cut values, or join them
windows      Converters of convolution and pooling
resizing     The converter of images that become larger by whole factors

No package of ONNX is needed.
"""

from nets.imported.head import GraphKeys
from nets.imported.net import Imported, import_net, import_weights

__all__ = ["GraphKeys", "Imported", "import_net", "import_weights"]

"""Export of a trained net to an ONNX file, for other runtimes.

export         Writer of ONNX files from a net and its weights
graph_builder  A builder of ONNX graphs, and the registry of functions that convert layer types
spatial        Converters of convolution, pooling and local response normalisation
pointwise      Converters of layers that treat each number separately, and of sums of several blobs
dense          Converters of products with weights, factors per channel, statistics and scores
tensor_shapes  Converters of layers that change shapes, cut blobs, or join several blobs to one
recurrent      Converters of Caffe's recurrent layers

A layer for which ONNX has no operator is composed of several operators. If that is impossible, it
is refused with its name and line. The number of rows stays open; all other sizes are the net's.
Opset 17 is old enough for nearly every runtime.
"""

from nets.onnx.export import export

__all__ = ["export"]

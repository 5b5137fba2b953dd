"""A trained net as an ONNX file, for other runtimes.

export         A net and its weights to an ONNX file
graph_builder  An ONNX graph as it grows, and which function converts which type of layer
spatial        Convolution, pooling and local response normalisation
pointwise      Layers that treat each number by itself, and sums of several blobs
dense          Products with weights, factors per channel, statistics and scores
tensor_shapes  The same numbers in another shape, parts of blobs, several blobs as one
recurrent      Caffe's recurrent layers

What ONNX has no operator for is composed of several; a layer that cannot be is refused by name and
line. The number of rows stays open, all other sizes are those of the net. Opset 17 is old enough
for nearly every runtime.
"""

from nets.onnx.export import export

__all__ = ["export"]

"""A trained net as an ONNX file, for other runtimes.

export      a net and its weights to a file; what stands in its metadata
graph_builder     one graph as it grows: names, constants, shapes; the table of converters by layer type
spatial  pointwise  dense  tensor_shapes  recurrent      a converter for each type of layer

What ONNX has no operator for is composed of several; a layer that cannot be is refused by name and
line. The number of rows stays open, all other sizes are those of the net. Opset 17 is old enough
for nearly every runtime.
"""

from nets.onnx.export import export

__all__ = ["export"]

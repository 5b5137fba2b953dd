"""File formats as protobuf messages: Caffe's, the part of ONNX's that is read, and the code
generated from both.

caffe_pb2     Generated protocol buffer code
fields        The treatment of every field of `caffe.proto` that a net or a solver may hold
layer_types   The names of all layer types of Caffe 1.0, and of the types that this package adds
generate      A script that regenerates the code of `caffe.proto` and `onnx_net.proto`
onnx_net_pb2  Generated protocol buffer code
"""

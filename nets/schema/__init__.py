"""Caffe's file formats as protobuf messages: `caffe.proto` and the code generated from it.

caffe_pb2    Generated protocol buffer code
fields       The treatment of every field of `caffe.proto` that a net or a solver may hold
layer_types  The names of all layer types of Caffe 1.0, and of the types that this package adds
generate     A script that regenerates `caffe_pb2.py` and `caffe_pb2.pyi` from `caffe.proto`
"""

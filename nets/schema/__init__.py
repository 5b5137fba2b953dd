"""Caffe's file formats as protobuf messages.

What lives here: `caffe.proto` and what is generated from it. What never: reading, checking or using the messages.
"""

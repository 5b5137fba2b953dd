"""Weights, histories and means as files.

weights      Weights from a file into a net
shared       Parameters that layers share by name, in Caffe's files and in ours
caffemodel   Caffe's `.caffemodel`: the weights of a net, by layer, as a binary NetParameter,
             `layer` or the older `layers`
solverstate  Caffe's `.solverstate`: the iteration and the solver's history, so that training goes
             on where Caffe stopped
mean         Caffe's mean image: a BlobProto in a `.binaryproto` file, read and written
hdf5         The one place that opens HDF5 files
blobs        Caffe's BlobProto and NumPy arrays, both ways
checkpoint   Named arrays in one safetensors file, written so that a crash leaves the old file or
             the new one
histories    Whose histories a checkpoint holds
binary       Whole files in and out
extras       Packages that only some files need
"""

"""Weights, histories and means as files.

weights                        any format of weights, matched to a net
shared                         what layers borrow from one another, in Caffe's files
caffemodel  solverstate  mean  Caffe's binary files
hdf5  blobs                    Caffe's HDF5 files; BlobProto and arrays
checkpoint  histories          named arrays in one safetensors file; whose histories they are
binary  extras                 whole files in and out; packages that only some files need
"""

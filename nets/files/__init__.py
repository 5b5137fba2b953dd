"""Weights, histories and means as files: Caffe's formats, HDF5, safetensors."""

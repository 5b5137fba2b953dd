"""Convolution on a device: which algorithm each pass of a shape gets, and the algorithms.

operations      Convolutions of a device
algorithm       What every convolution algorithm of a device is
choose          Which algorithm each pass of a convolution gets, by shape
lowered         Convolution by lowering
cudnn           cuDNN's convolutions, through NVIDIA's frontend
trial           Two algorithms beside each other on the same made-up images
weight_layouts  Weights between Caffe's order (K, C/groups, kh, kw) and that of windows,
                [K][kh][kw][C/groups]
"""

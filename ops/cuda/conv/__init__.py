"""Convolution on a device: which algorithm each pass of a shape gets, and the algorithms.

operations      Convolutions of a device
algorithm       The interface of a device's convolution algorithms
choose          The choice of an algorithm for each pass of a convolution, by shape
lowered         Convolution by lowering
cudnn           cuDNN's convolutions, through NVIDIA's frontend
trial           A trial of two algorithms on the same random images
weight_layouts  Weights between Caffe's order (K, C/groups, kh, kw) and that of windows,
                [K][kh][kw][C/groups]
candidates      The ways in which cuDNN can compute a pass of a convolution, as candidates of a
                trial
folded          Convolution of folded images
kept_choices    cuDNN's choices between starts
"""

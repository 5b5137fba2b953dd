"""Kernels of depthwise convolution: each channel has its own weights, so channels are the lanes of
vectors.

blocks          The part of a depthwise convolution that its kernels are made for
image_kernels   Kernels of depthwise convolution that make images
sweep           The loops that all kernels of depthwise convolution share
weight_kernels  Kernels of depthwise convolution that make gradients of weights
"""

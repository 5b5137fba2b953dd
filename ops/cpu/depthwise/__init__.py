"""Kernels of depthwise convolution: each channel has its own weights, so channels are the lanes of
vectors.

They also take groups of a few channels with as many outputs. A group then has as many turns: in
turn t each output meets the channel t places further on in its group, so a turn is a depthwise
convolution of channels that have changed places.

blocks          The part of a depthwise convolution that its kernels are made for
image_kernels   Kernels of depthwise convolution that make images
sweep           The loops that all kernels of depthwise convolution share
weight_kernels  Kernels of depthwise convolution that make gradients of weights
"""

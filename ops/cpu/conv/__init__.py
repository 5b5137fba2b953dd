"""Convolution: which algorithm each pass of a shape gets, and the algorithms.

operations             Convolutions of the CPU backend
algorithm              The interface of the CPU backend's convolution algorithms
choose                 The choice of an algorithm for each pass of a convolution, by shape and
                       precision
direct                 Direct convolution: every sum as it stands in the definition, for any shape,
                       on the micro-kernel
taps                   Where a direct convolution reads and writes
blocking               How direct convolution divides its work
block_loops            The parts that all loops of direct convolution share
image_loops            The loops of direct convolution that make images
weight_loops           The loops of direct convolution that make gradients of weights of several
                       taps
pixel_loops            The loops that make gradients of weights with one tap
pack                   Weights between Caffe's order and the panels that the micro-kernel reads
winograd               Convolution by Winograd's minimal filtering
winograd_loops         The loops of Winograd convolution, forward
toom_cook              The matrices of Winograd's minimal convolutions and how few operations they
                       take
transforms             Straight-line transforms of small patches, P D PT, and the transposition of a
                       square of numbers, as LLVM IR
lowered                Convolution by lowering, `b_p` images at a time, each thread with a part of
                       them (Omnivore, section 3.2)
winograd_weight_loops  The loops of Winograd convolution that make gradients of weights
direct_plans           Plans of direct convolution
depthwise              Depthwise convolution, and convolution in groups of 2, 4 or 8 channels with
                       as many outputs, of images in float32 or bfloat16
depthwise_operations   Depthwise convolution on the CPU backend

See docs/decisions/kernels.md.
"""

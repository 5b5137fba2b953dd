"""Convolution: which algorithm each pass of a shape gets, and the algorithms.

operations                  the backend's methods: the chosen algorithm, or the reference
algorithm  choose           what an algorithm is, and which one a pass gets
direct  direct_plans        direct convolution: its passes, and their plans
taps  blocking              what a pass reads, sizes of blocks
block_loops  image_loops    its loops: what they share; outputs, and gradients of images
weight_loops  pixel_loops   gradients of weights with several taps, and with one
pack                        weights between Caffe's order and panels
winograd  winograd_loops    Winograd's method: its plan and its loops
toom_cook  transforms       its matrices, and their code for patches
lowered                     lowering and one product, `b_p` images at a time

See docs/decisions/kernels.md.
"""

"""Convolution in bfloat16 on the tiles of AMX. Images lie in memory in float32 or in bfloat16,
weights in float32; copies of them are rounded.

convolution  Convolution on tiles, whose products are made in bfloat16
image_plan   Plans of the passes that make images
weight_plan  The plan of the pass that makes gradients of weights
windows      Where results of a convolution read their source along one axis, and how a copy of the
             source puts what they read side by side
images       The kernels that make images by products in bfloat16
weights      The kernels that make gradients of weights by products in bfloat16
pack         Weights as the panels of pairs that blocks read
vectors      Vectors of bfloat16 numbers in generated kernels
patched      Convolution of images with few channels on tiles, by `patches`
patches      Convolution of images with few channels on tiles
block        The block of every product in bfloat16 here
in_place     Convolution on tiles without a copy of x
"""

"""What an NVIDIA GPU computes, a family of operations a file; `ops.backends.cupy_backend` puts them
together.

kernels/                                     CUDA C, as text
device                                       what every family stands on
launch  image_layout  scratch                      starting kernels; how images lie; memory kept between operations
repeats                                      operations that come again: started without their checks
conv/                                        convolutions: which algorithm a pass gets, and those there are
windows  normalise  pointwise                pooling and LRN; batch normalisation; rectifier and dropout
products  losses  updates                    fully connected layers; softmax and its loss; solvers

Nothing here imports CuPy: the module is given.

See docs/decisions/gpu.md.
"""

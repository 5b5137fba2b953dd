"""What an NVIDIA GPU computes, a family of operations a file; `ops.backends.cupy_backend` puts them
together.

kernels/      CUDA C sources of the CuPy backend, a family a file
device        What every family of a device's operations stands on
launch        Starting kernels: the grid, and arguments in the types that their parameters have
image_layout  How images lie in a device's memory
scratch       Scratch memory of one backend
repeats       Operations that a net calls with the same arrays in every pass
conv/         Convolution on a device
windows       Pooling and local response normalisation of a device: one launch each
normalise     Batch normalisation of a device, alone or with scale, bias, addend and rectifier
pointwise     Rectifier and dropout of a device: one launch each, over whatever lies in rows
products      Matrix products by a module's `matmul`, for where there is no cuBLAS
losses        Softmax and its loss on a device
updates       Updates of many parameters in one launch, and the sums of a table's rows

Nothing here imports CuPy: the module is given.

See docs/decisions/gpu.md.
"""

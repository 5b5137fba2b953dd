"""The operations of an NVIDIA GPU, one family per file; `ops.backends.cupy_backend` puts them
together.

kernels/      CUDA C sources of the CuPy backend, one family per file
device        The base of every family of a device's operations
launch        Starting kernels: the grid, and arguments in the types that their parameters have
image_layout  How images lie in a device's memory
scratch       Scratch memory of one backend
repeats       Operations that a net calls with the same arrays in every pass
conv/         Convolution on a device
copies/       The ways of arrays between a device, the host and other processes
windows       Pooling and local response normalisation of a device: one launch each
normalise     Batch normalisation of a device, alone or with scale, bias, addend and rectifier, in
              two launches each way
pointwise     Rectifier, gates, sum and dropout of a device
products      Matrix products by a module's `matmul`, where there is no cuBLAS
losses        Softmax and its loss on a device
updates       Updates of many parameters in one launch, and the sums of a table's rows
depthwise     Depthwise convolution of a device: one launch for each pass
signatures    The parameters of a kernel, read from its text, and the check of a call's arguments
cublas        Products by cuBLAS
graphs        CUDA graphs of recorded work: one call starts all of it
pixels        The transform of images of bytes on a device: one launch, from planes to pixels
full_memory   The function that gives memory to the arrays of a device, and its error for people

Nothing here imports CuPy: the backend passes the module.

See docs/decisions/gpu.md.
"""

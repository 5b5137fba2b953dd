"""The operations of an NVIDIA GPU, one family per file; `ops.backends.cupy_backend` puts them
together.

kernels/      CUDA C sources of the CuPy backend, one family per file
device        The base of every family of a device's operations
launch        Starting kernels: the grid, and arguments in the types that their parameters have
image_layout  How images lie in a device's memory
scratch       Scratch memory of one backend
repeats       Operations that a net calls with the same arrays in every pass
conv/         Convolution on a device
windows       Pooling and local response normalisation of a device: one launch each
normalise     Batch normalisation of a device, alone or with scale, bias, addend and rectifier
pointwise     Rectifier, gates, sum and dropout of a device
products      Matrix products by a module's `matmul`, where there is no cuBLAS
losses        Softmax and its loss on a device
updates       Updates of many parameters in one launch, and the sums of a table's rows
depthwise     Depthwise convolution of a device
signatures    The parameters of a kernel, read from its text, and the check of a call's arguments
host_copies   Copies of a device's arrays in memory of the host that other processes read in place
page_locks    The page locks of memory that this process shares with others
peer_memory   Memory of a device that processes share through handles of CUDA IPC
device_array  An array of a device for other actors
cublas        Products by cuBLAS
transfers     Copies between the host and a device in the order of its work, which nothing waits for
              until their numbers are needed
graphs        CUDA graphs of recorded work: one call starts all of it
uploads       Copies of images to a device on a stream of their own
pixels        The transform of images of bytes on a device: one launch, from planes to pixels

Nothing here imports CuPy: the backend passes the module.

See docs/decisions/gpu.md.
"""

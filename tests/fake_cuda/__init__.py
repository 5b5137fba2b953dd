"""CuPy without a GPU: real CuPy on a library of ours that stands in for CUDA's. Device memory is
the host's, a kernel is compiled by g++ and runs at once. It shows that code for CuPy runs and
computes the right thing, not how fast.

build       makes the folder that goes in front of PYTHONPATH; `python -m tests.fake_cuda` does it by hand
processes   starts processes in which CuPy uses it, with so many devices, so much memory, or what should go wrong
source/     the libraries: runtime, driver, nvrtc, cublas, cudnn
installed/  what lies beside them there: CUDA C++ for the processor, counts, a replacement of cupy.cuda.thrust

What it is strict about: new memory is full of NaN; the ends of a copy must lie where its kind says;
the operands of a product must be memory of the device in use; whoever uses CUDA after a fork is
refused, and a fork after CUDA's start is said and counted; threads that wait at different barriers
abort. What it cannot show stands in docs/gpu.md.
"""

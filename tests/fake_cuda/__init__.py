"""CuPy without a GPU: the real CuPy on a library of this project that stands in for CUDA. Device
memory is memory of the host. A kernel is compiled by g++. Launches, copies and products are queued
in their streams, and run when something waits for them: in the order of the calls, or in an order
that a seed draws. The stand-in shows that code for CuPy runs, waits where it must and computes the
right numbers. It does not show how fast the code is.

build       makes the folder that goes first in PYTHONPATH; `python -m tests.fake_cuda` calls it
processes   starts processes in which CuPy uses it; sets devices, memory, faults and the order
source/     the libraries: runtime, driver, nvrtc, cublas, cudnn; `queue.h` explains the queue
installed/  files next to them: CUDA C++ for the processor, counts, a replacement of thrust

The stand-in is stricter than a GPU. New memory is full of NaN. The ends of a copy must lie where
the kind of copy says. The operands of a product must be memory of the device in use. A call of CUDA
after a fork is refused. A fork after CUDA's start is reported and counted. Threads that wait at
different barriers abort. A launch with the address of freed memory, a graph that uses it, and a
free of memory that another process has open are reported, and all later calls fail. docs/gpu.md
lists the properties that it cannot show.
"""

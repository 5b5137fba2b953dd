"""CuPy without a GPU: the real CuPy on a library of this project that stands in for CUDA. Device
memory is memory of the host. A kernel is compiled by g++ and runs at once. The stand-in shows that
code for CuPy runs and computes the right numbers. It does not show how fast the code is.

build       makes the folder that goes first in PYTHONPATH; `python -m tests.fake_cuda` calls it
processes   starts processes in which CuPy uses it; sets devices, memory and faults
source/     the libraries: runtime, driver, nvrtc, cublas, cudnn
installed/  files next to them: CUDA C++ for the processor, counts, a replacement of thrust

The stand-in is stricter than a GPU. New memory is full of NaN. The ends of a copy must lie where
the kind of copy says. The operands of a product must be memory of the device in use. A call of CUDA
after a fork is refused. A fork after CUDA's start is reported and counted. Threads that wait at
different barriers abort. docs/gpu.md lists the properties that it cannot show.
"""

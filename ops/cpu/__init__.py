"""The fast kernels of the CPU backend: generated micro-kernels, the loops around them, the threads
they run on.

codegen/      How kernels are written and compiled
team/         The base of every kernel: the threads, scratch memory, and the layout of arrays
gemm/         Products of matrices: the register-blocked micro-kernel and the loops around it
conv/         Convolution: which algorithm each pass of a shape gets, and the algorithms
elementwise/  Operations that pass over memory once or twice
recurrent/    Recurrent layers: products over all steps at once, then the steps
depthwise/    Kernels of depthwise convolution
tiled/        Convolution in bfloat16 on the tiles of AMX

See docs/decisions/kernels.md.
"""

"""How kernels are written and compiled: LLVM IR, numba, the processor, the store of machine code."""

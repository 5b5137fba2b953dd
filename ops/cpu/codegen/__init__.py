"""How kernels are written and compiled: LLVM IR, numba, the processor, the store of machine code.

target             the processor: its name, features, width of vectors, caches
kernel             loops in Python
loops              what numba makes of them, imported only where one is compiled
code  values       loops in LLVM IR: the code that is built, and the values it works on
ir_tools  prefetch_hints  smooth   small pieces of IR: masks and loops, cache lines, exp and tanh
wanted             what is to be compiled, shared out over the processes of a run
compiled  store    LLVM modules as machine code, and the disk that keeps all kernels
owned              files and folders that are this user's alone; the same file as `runtime/machine/owned.py`

See docs/decisions/kernels.md.
"""

"""The base of every kernel: the threads, scratch memory, and the layout of arrays.

team          The one thread pool of a process
handover      How a team's threads hand each other work, as LLVM IR
workspace     Scratch memory of one backend
fast          The base of every family of fast operations
image_layout  How kernels see images
operands      How kernels see arrays of any shape
streams       Kernels that pass once over arrays of one shape, element by element
recorder      The recorder of a team's work
"""

"""How kernels are written and compiled: LLVM IR, numba, the processor, the store of machine code.

target          The processor that kernels are compiled for
kernel          How loops become kernels
loops           Kernels that are loops in Python
code            Kernels written as LLVM IR instruction by instruction
values          The values of generated kernels
ir_tools        Small pieces of LLVM IR that the generated kernels share
bfloat16        bfloat16 in generated kernels
prefetch_hints  A hint that asks for a cache line before it is needed
smooth          exp, sigmoid and tanh of float32 vectors, as LLVM IR
wanted          Kernels that are wanted and not yet loaded
compiled        Generated kernels as machine code
store           The store of compiled kernels between processes
owned           Files and folders of this user, made and opened so that no other user can replace
                them
amx             Intel's AMX in generated kernels
stored          Arrays stored in bfloat16
width           The widest vectors that kernels may use, as `CONVOY_VECTOR_BITS` has it

See docs/decisions/kernels.md.
"""

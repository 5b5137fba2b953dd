"""Products of matrices: the register-blocked micro-kernel and the loops around it.

tile              The register-blocked micro-kernel that every product of matrices here runs on, as
                  LLVM IR
microkernel       The table of micro-kernels for this machine's vectors, and how loops call them
calls             The functions that generated loops call
permute           Two generated movers of memory
turn              Matrices turned by 90 degrees
narrow            Generated movers that round float32 numbers to bfloat16 and bring them into the
                  layout of blocks
gemm              Products of matrices
dense             Dense layers and products of matrices on the CPU backend
bfloat16_product  Products of float32 matrices whose operands are rounded to bfloat16 while they are
                  packed
amx_block         The block of a product that AMX's tiles compute, as LLVM IR
bfloat16_choice   The choice of instruction for products in bfloat16, by processor
dot_block         The block of a product that VDPBF16PS computes
products          The choice of a plan for each product
"""

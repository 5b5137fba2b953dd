"""Products of matrices: the register-blocked micro-kernel and the loops around it.

tile  microkernel    the micro-kernel's code, and the table of its forms for this machine
calls                how generated loops call it
permute  turn        moving memory: blocks transposed, rows copied, matrices turned
gemm  dense          the product of any two matrices; dense layers by plans that are kept
"""

"""The fast kernels of the CPU backend: generated micro-kernels, the loops around them, the threads
they run on.

codegen/       how kernels are written, compiled and kept
team/          the threads, scratch memory, how arrays are seen
gemm/          products of matrices
conv/          convolution: direct, Winograd, lowering
elementwise/   operations that pass over memory once or twice
recurrent/     LSTM and RNN

See docs/decisions/kernels.md.
"""

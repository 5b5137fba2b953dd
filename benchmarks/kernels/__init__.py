"""Each kernel beside its bound and PyTorch. The command is `kernels`; others are `kernels.*`."""

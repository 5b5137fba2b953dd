"""Every convolution of seven nets compared with PyTorch. The command is `kernels`."""

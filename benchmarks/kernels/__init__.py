"""Every convolution of seven nets beside PyTorch. The command is `kernels`."""

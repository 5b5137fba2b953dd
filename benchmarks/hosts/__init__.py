"""Eight machines compared with PyTorch's DDP on the same ones. The command is `hosts`."""

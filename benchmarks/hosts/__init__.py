"""Eight machines beside PyTorch's DDP on the same machines. The command is `hosts`."""

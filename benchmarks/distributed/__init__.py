"""Two workers compared with one process and with PyTorch's DDP. The command is `distributed`."""

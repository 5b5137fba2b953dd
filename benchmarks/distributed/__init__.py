"""Two workers beside one process and beside PyTorch's DDP. The command is `distributed`."""

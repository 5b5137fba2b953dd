"""CIFAR-10 by the recipe of its speed records, compared with PyTorch. The command is `cifar94`."""

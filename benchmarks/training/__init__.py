"""Whole training steps compared with PyTorch. The command is `training`."""

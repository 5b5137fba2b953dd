"""Whole training steps beside PyTorch. The command is `training`."""

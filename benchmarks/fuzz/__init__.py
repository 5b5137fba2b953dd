"""Fuzzing of everything that reads bytes from outside. The command is `fuzz`."""

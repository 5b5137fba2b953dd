"""What the queueing model and the tuner say.

The command is `tuning`; most other files are a part of it.
"""

"""Checkpoints of a run that goes on, and the one that a run goes on from.

rhythm  when one is due by time, which are removed; plain decisions
saving  copies the model in memory, writes the copy beside training, gives back what was beside the model
newest  which checkpoint `up --resume` takes, and why not another
"""

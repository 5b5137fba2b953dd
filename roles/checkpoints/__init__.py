"""Checkpoints of a run that goes on, and the one that a run goes on from.

checkpoint_timing  when one is due by time, which are removed; plain decisions
saving  copies the model in memory, writes the copy beside training, gives back what was beside the model
best        which model was the best, and when training ends early; plain decisions
watching    what cluster.toml asks of tests; what is seen of the data
deployment_facts  what a checkpoint says of its use
state_average  several servers' states as one file's arrays
finished  whether nothing is left to train
newest  which checkpoint `up --resume` takes, and why not another
meant   which one is used where a run is named

See docs/decisions/runs.md.
"""

"""Checkpoints of a run that goes on, and the one that a run goes on from.

checkpoint_timing  When a checkpoint is due by time, and which of them are removed
saving             A coordinator's checkpoints
best               Which model was the best so far, and when training ends early
watching           What the lead of a run is told of tests and of checkpoints
deployment_facts   What a checkpoint says of its use (`nets.predict.deployment`)
state_average      What a checkpoint holds
finished           Whether a run would train nothing
newest             Which checkpoint a run goes on from, if nobody names one
meant              Which checkpoint of a run is meant where a person names the run and no file

See docs/decisions/runs.md.
"""

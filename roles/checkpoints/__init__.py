"""Checkpoints: when and how a run saves them, and the checkpoint that a run resumes.

checkpoint_timing  The time at which a checkpoint is due, and the removal of old ones
saving             The saving of a coordinator's checkpoints
best               The best model so far, and the decisions to end training early and to lower the
                   rate, by the tests of the first test net
watching           The lead's options for tests and checkpoints, from cluster.toml, the net that is
                   tested, and the data
deployment_facts   The description of a checkpoint's use (`nets.predict.deployment`)
state_average      The arrays of a checkpoint: the states of all servers side by side
finished           Detection of a run that would train nothing, because the checkpoint that it
                   resumes is already the end of the training
newest             The newest checkpoint that is whole and fits a run, for a run that resumes
                   without a named file
meant              The files of weights that the user means
image_numbers      A warning for weights that were trained on images with another mean or deviation
                   than this run has

See docs/decisions/runs.md.
"""

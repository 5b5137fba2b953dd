"""The tuner: it tries settings on the training cluster and chooses groups, momentum, learning rate
and batch. Also the statistics of gradients during the training.

tuner                The tuner: an actor that tries settings while the coordinator holds the run,
                     and lets the run go on with the best
search               The order in which a search tries settings
short                The cold start of a run whose budget does not pay for a grid at each number of
                     groups
grids                Grids of settings with the same number of groups
batch_choice         The choice of the batch with which training makes most progress per second
trials               The probes of one search, their costs, and the limit of the budget
judgement            The comparison of two probes
choices              The values from which the tuner may choose, the settings that it tries, and its
                     choice
record               The file tuning.json: every search of a run with its probes and its choice
momentum_following   Momentum without probes
momentum             The momentum that asynchrony adds
noise                The noise of gradients, and the worth of a larger batch
ratio                A ratio of two sums of noisy pairs, with its standard error
watch                A watch of the gradients that a model server applies
gradient_statistics  The statistics of a model server's gradients, momentum and noise
cluster_model        The model of the cluster of a live run
hardware             The model of the cluster that the tuner asks
held_cluster         The training cluster as a laboratory
compensation         The explicit momentum that follows the number of asynchronous groups
course               The way on after a search

See docs/decisions/tuning.md.
"""

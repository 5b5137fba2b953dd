"""The tuner: tries settings on the training cluster and chooses groups, momentum, learning rate and
batch. And what learning says of itself while it goes on.

tuner      the actor: asks the coordinator to hold, to probe, to go on
search     what is asked in which order: the cold start, and an epoch's Algorithm 1
short      the cold start of a run too short for grids
grids      the grid over learning rates and momenta at one number of groups
batch_choice    the batch with which a second of training brings most
trials     what was tried and what it cost; when the budget ends a search
judgement  which of two probes is better, and whether that is clear
choices    what may be chosen, and what is
record     tuning.json
momentum_following  momentum without probes: the explicit one follows what is measured
momentum   the momentum that asynchrony brings along: expected, counted, measured; and a step towards a total
noise      how noisy gradients are, and what a larger batch would be worth
ratio      a ratio of two sums, and how well it is known
watch      looks at the gradients that a model server applies, now and then
gradient_statistics  what a model server answers when it is asked for all of that

See docs/decisions/tuning.md.
"""

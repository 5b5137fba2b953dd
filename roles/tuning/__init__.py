"""The tuner: tries settings on the training cluster and chooses groups, momentum and learning rate.

tuner      the actor: asks the coordinator to hold, to probe, to go on
search     what is asked in which order: the cold start, and an epoch's Algorithm 1
grids      the grid over learning rates and momenta at one number of groups
trials     what was tried and what it cost; when the budget ends a search
judgement  which of two probes is better, and whether that is clear
choices    what may be chosen, and what is
record     tuning.json
"""

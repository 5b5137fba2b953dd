"""The tuner: it tries settings on the training cluster and chooses groups, momentum, learning rate
and batch. Also the statistics of gradients during the training.

tuner                The tuner: has the coordinator hold the run, tries settings from the model of
                     that moment, lets the run go on with the best, watched for an epoch
search               What is asked in which order
short                The cold start of a run whose budget pays for no grid at each number of groups
grids                Questions with the same number of groups
batch_choice         Which batch: the one with which a second of training brings most
trials               What was tried in one search, what it cost, and when there is no more to spend
judgement            Which of two probes learnt better, and whether that is clear
choices              What the tuner may choose from, what it tries, what it chooses
record               tuning.json: every search of a run with what was tried, and what was chosen
momentum_following   Momentum without probes
momentum             The momentum that asynchrony brings along
noise                How noisy gradients are, and what a larger batch would be worth (McCandlish et
                     al
ratio                A ratio of two sums of noisy pairs, and how well it is known
watch                Looks at the gradients that a model server applies, now and then, and at some
                     coordinates of each
gradient_statistics  What a model server's gradients say of momentum and noise, asked for and
                     answered

See docs/decisions/tuning.md.
"""

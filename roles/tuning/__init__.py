"""What learning says of itself while it goes on, and what follows from it.

momentum  the momentum that asynchrony brings along: expected, counted, measured; and a loop that keeps the total
noise     how noisy gradients are, and what a larger batch would be worth
ratio     a ratio of two sums, and how well it is known
watch     looks at the gradients that a model server applies, now and then
"""

"""How workers with replicas add up; all but the ring give the same bits.

exchange  chosen_exchange         what each way is and says of itself; the one a worker was told
collective               in memory that all members see
per_host                 in such memory on each host, then one member of each with the others'
tree_exchange  binomial           along a tree of the members, its shape
ring  halving            piece by piece round a ring; by halves and back
host_accumulate  accumulator        at one accumulator in host memory
buckets  partial_sums    which gradients travel together; arrays that have come

See docs/decisions/sums.md.
"""

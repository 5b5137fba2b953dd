"""Exchanges: the ways in which workers with replicas sum gradients. All but the ring give the same
bits.

exchange         The base classes of exchanges, which are ways to sum arrays over workers
chosen_exchange  The exchange that a worker was told to use: one of this package, or of another
collective       Sums of p members' arrays in memory that all of them see
per_host         Sums of arrays over members on several hosts
tree_exchange    Sums of p members' arrays up a tree of the members themselves
binomial         The shape of a reduction tree whose nodes are the workers themselves (FireCaffe,
                 section 6.2)
ring             Sums of p members' arrays round a ring, piece by piece
halving          Sums of p members' arrays by halves, put together by doubling
host_accumulate  Sums of workers' arrays at one accumulator in host memory
accumulator      The accumulator: adds up on the CPU the arrays that the devices of one machine
                 copied to host memory, and sends them the sum
buckets          Buckets of gradients that travel together
partial_sums     The arrays that peers send for sums

See docs/decisions/sums.md.
"""

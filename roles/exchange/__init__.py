"""How workers with replicas add up; all give the same bits.

exchange  choice         what each way is and says of itself; the one a worker was told
collective               in memory that all members see
tree  binomial           along a tree of the members; its shape
host  accumulator        at one accumulator in host memory
buckets  partial_sums    which gradients travel together; arrays that have come
"""

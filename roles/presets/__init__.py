"""Families of topologies, each with its presets.

request      The request that every preset gets, the declaration of a preset, and the coordinator
             that all presets have
groups       Workers in groups, and the trees from them to a model server, for presets with model
             servers
merged       Omnivore, its two ends and Project Adam
unmerged     Unmerged FC phases
whole        Workers that each hold the whole net
shards       The FC phase on n servers, each with a share of its units, next to Omnivore's conv
             workers or on the workers
norm_shares  The holders of parameters of a topology, which share the norm of gradients that are
             clipped
islands      Islands: workers of unequal speed on slow links, each with the whole net

See docs/decisions/training.md.
"""

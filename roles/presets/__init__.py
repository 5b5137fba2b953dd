"""Families of topologies, each with its presets.

request   What every preset is
groups    Workers in groups, and the trees above them to a model server
merged    Omnivore, its two ends and Project Adam
unmerged  FC phases unmerged
whole     Workers that hold the whole net each
shards    The FC phase on n servers, each with a share of its units

See docs/decisions/training.md.
"""

"""Families of topologies.

request   what a preset is asked, and says of itself
groups    workers in groups and the trees above them
merged    Omnivore, its two ends, Project Adam
unmerged  model servers for the whole net
whole     workers that hold the whole net
shards    the FC phase on several servers

See docs/decisions/training.md.
"""

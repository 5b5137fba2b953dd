"""Descriptions of nets and solvers as their authors wrote them, read and checked.

prototxt       A reader of text-format messages that remembers the line of each field
spec           A net as its author wrote it
builder        Nets written in Python instead of prototxt, as with pycaffe's NetSpec
ignored        The fields of a net or solver that are not honoured, as problems and warnings with
               file, line and key
upgrade        Upgrades nets of older Caffe formats to today's format without changing their meaning
upgrade_v0     Upgrades layers of Caffe's first format (V0) to today's format
params         The learnable arrays of a net before training
solver         The settings of a net's training
update_rules   The update of layers by a solver, with the rule of its type (`solver_types`)
policies       Learning rates over time
solver_checks  Checks of a solver
scaling        Rules for the learning rate and the weight decay when the batch grows by a factor k
optimizer      The settings of a solver that Caffe's files lack
rate_schedule  Learning rates over time that cluster.toml gives
solver_types   The table of solver types, Caffe's and later ones
whitening      Whitening of image patches
zoo            The zoo's nets in Python, by name
"""

"""A net as its author wrote it.

prototxt              text to messages, with the line of every field
spec                  NetSpec: the layers, the phase rules, names of the zoo
builder               a net written in Python
ignored               what is refused, or read and not used
upgrade  upgrade_v0   Caffe's older formats, brought up to date
params                ParamSpec: shape, filler, multipliers, first values
solver  rules         SolverSpec: its nets, rates; the solver types, and the update of a layer
policies              learning rates over time
solver_checks         what is wrong with a solver, what in it is not used
scaling               rates for larger batches
"""

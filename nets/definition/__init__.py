"""A net as its author wrote it.

prototxt              text to messages, with the line of every field
spec                  NetSpec: the layers, the phase rules, names of the zoo
upgrade  upgrade_v0   Caffe's older formats, brought up to date
params                ParamSpec: shape, filler, multipliers, first values
solver  rules         SolverSpec: rates, checks; the update of each solver type
scaling               rates for larger batches
"""

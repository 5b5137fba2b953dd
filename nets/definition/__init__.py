"""Descriptions of nets and solvers as their authors wrote them, read and checked.

prototxt       Reads text-format messages and remembers on which line each field stood
spec           A net as its author wrote it
builder        Nets written in Python instead of prototxt, as with pycaffe's NetSpec
ignored        What of a net or solver is not honoured
upgrade        Brings nets of older Caffe formats to the present one, without a change of meaning
upgrade_v0     Brings layers of Caffe's first format (V0) to today's
params         The learnable arrays of a net before training
solver         How a net is trained
update_rules   How a parameter changes
policies       Learning rates over time
solver_checks  What is wrong with a solver, and what in it is read and not used
scaling        What to do with the learning rate and the weight decay when the batch grows by a
               factor k
"""

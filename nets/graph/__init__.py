"""A net that runs.

part                what a net is: layers, shapes, parameters, what crosses a cut
graph  emulated_net     Net: one pass, stage by stage; the same with shapes alone
wiring  borders     which layer reads what; where a part of a net begins and ends
stages  sharing     the unit in which parameters are pulled; parameters that layers share
gradients  scores   the gradients of one pass, summed; its losses and accuracies
net_memory              where the arrays of a pass lie
inputs              what a net is fed: its data layers, and whether a batch fits them
in_place  fusion    who may write over what; which layers are one operation of the backend
classes             inputs that are numbers of classes or words
warm                compiling what a net needs before its first pass
"""

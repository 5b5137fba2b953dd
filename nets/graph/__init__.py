"""A net that runs.

graph         A net that runs
emulated_net  A net that computes nothing
wiring        Which layer reads what: blob names resolved to values, each written once
borders       Where a part of a net begins and ends
stages        A net in stages
sharing       Parameters that several layers share by name (Caffe's `param { name
gradients     The gradients of one pass
scores        The losses and accuracies of a pass, as Python's numbers
net_memory    The memory plan of a net
inputs        What a net is fed
in_place      Which layers may write over their bottoms, and which do the work of the next one as
              they write
fusion        Which layers the backend computes as one operation
classes       Which inputs of a net are numbers of classes or of words, and how many of these it
              knows
warm          Preparing what a net needs before its first iteration
net_part      What a net is, before anything is computed
"""

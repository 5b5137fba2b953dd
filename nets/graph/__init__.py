"""Nets that run: their wiring, stages and memory plan, forward and backward.

graph            A net that runs, or its conv phase or FC phase
emulated_net     A net that computes nothing
wiring           The wiring of a net: blob names resolved to values
borders          The borders of a part of a net
stages           The stages of a net: consecutive layers of which at most one has parameters
sharing          Parameters that several layers share by name, their owners and the checks
gradients        The gradients of one pass
scores           The losses and accuracies of a pass, as Python's numbers
net_memory       The memory plan of a net
inputs           The inputs of a net
in_place         Layers that write over their bottoms, and layers that do the work of the next layer
                 as they write
fusion           Fusion: the groups of layers that the backend computes as one operation
classes          The inputs of a net that are numbers of classes or of words, and their allowed
                 ranges
warm             Preparation of a net before its first iteration
net_part         A net before it computes
fed_net          A net that is given the arrays of a pass
streams          The streams of a net with recurrent layers
blanks           Numbers that stand in for a net's inputs in a pass whose results do not count
whitening        The layers of a net that whiten the patches of images (the filler `whitening`), and
                 their weights for given images
storage          Storage: which values of a net, and their gradients, are kept in bfloat16
repeated_net     A net whose passes can be recorded, and replayed in place of the calls between
                 `feed` and `scalars`
replayed_layers  Layers of a net that are replayed
replaying_net    A net that replays consecutive layers of a stage whose arrays stay where they are,
                 if the backend can record them (`nets.graph.replayed_layers`)
"""

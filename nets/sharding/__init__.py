"""The FC phase of a net, shared out over several servers by output units.

chain        The FC phase of a net as a chain
sharded_net  What one of n servers has of a net's FC phase that is shared out by output units
division     The FC phase of a net, shared out over n servers by output units (One weird trick,
             section 4
slices       Parts of arrays
"""

"""The FC phase of a net, shared out over several servers by output units.

chain      where it is cut: behind each InnerProduct
sharded_net      what one server has: shapes, parameters, what comes from the others
division   one server's passes
slices     cutting arrays and links
"""

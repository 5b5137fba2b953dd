"""The FC phase of a net, divided among several servers by output units.

chain        The FC phase of a net as a chain of links
sharded_net  The part that one of n servers has of a net's FC phase, which is divided by output
             units
division     The passes of one of n servers that divide the FC phase of a net by output units
slices       The parts of arrays that a shard has, and a link of a chain as a separate net
"""

"""What people do with nets and data beside training.

convert   one format to another: images, weights, solver states, means
volumes   sizes and FLOPs of a net, from its shapes
timing    seconds of each layer
"""

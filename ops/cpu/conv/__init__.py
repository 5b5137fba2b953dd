"""Convolution: which algorithm a shape gets, and the algorithms: direct, Winograd, lowering."""

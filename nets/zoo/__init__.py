"""Nets and solvers that ship.

modules  The parts that nets in Python share
resnet   Residual nets (He et al
"""

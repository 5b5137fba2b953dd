"""A cluster on one event loop.

cluster  nodes and in-process roads for a whole placement
loop_tracing  what its actors did, as a file
clock    a loop whose time jumps to the next due event
"""

from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate

__all__ = ["Journal", "run_virtual", "simulate"]

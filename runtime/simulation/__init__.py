"""A whole cluster on one event loop, in real or virtual time."""

from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate

__all__ = ["Journal", "run_virtual", "simulate"]

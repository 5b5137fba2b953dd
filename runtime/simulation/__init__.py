"""A whole cluster on one event loop, in real or virtual time.

cluster       A simulated cluster
loop_tracing  Traces of runs whose actors all live on this event loop, in real or virtual time
              (`run.trace`)
clock         Virtual time: an event loop whose clock jumps to the next due event instead of waiting
              for it
growing       The growth of a simulated run: actors start and end others on one event loop
"""

from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate

__all__ = ["Journal", "run_virtual", "simulate"]

"""Traces of runs whose actors all live on this event loop, in real or virtual time
(`run.trace`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from runtime.actors.node import Node
from runtime.plan.topology import Placement
from runtime.tracing.merging import Clock, Merged, merge, part_of, write_clocks
from runtime.tracing.tracer import Tracer

NUMBER = 1  # the number of the trace in its run


class LoopTracing:
    """Traces each process of a placement until the lead actor has counted `iterations` steps, or
    the run is over. `nodes` has the node of each process. Raises OSError."""

    def __init__(
        self, placement: Placement, nodes: Mapping[str, Node], directory: Path, iterations: int
    ) -> None:
        now = asyncio.get_running_loop().time
        self._nodes = nodes
        self._directory = directory
        lead = placement.topology.lead
        self._lead = nodes[placement.process_of()[lead]].actors[lead].actor
        self._ends_at = self._lead.steps + 1 + iterations
        self._tracers: list[Tracer] = []
        write_clocks(directory, NUMBER, now(), {spec.name: Clock() for spec in placement.processes})
        for place, spec in enumerate(placement.processes, 1):
            path = part_of(directory, spec.name, NUMBER)
            tracer = Tracer(path, spec.name, place, spec.actors, now)
            self._tracers.append(tracer)
            nodes[spec.name].trace(tracer)

    def __repr__(self) -> str:
        return f"<tracing on one loop until step {self._ends_at}>"

    def look(self) -> None:
        """End the trace if it has enough steps. Called after each piece of work."""
        if self._lead.steps > self._ends_at:
            self._end()

    def close(self) -> Merged:
        """Write the trace file. Raises OSError or ValueError."""
        self._end()
        for tracer in self._tracers:
            tracer.close()
        return merge(self._directory)

    def _end(self) -> None:
        for node in self._nodes.values():
            if node.router.tracer is not None:
                node.trace(None)

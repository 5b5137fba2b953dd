"""Traces a run whose actors all live on this event loop, in real or virtual time: `run.trace` of
it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from runtime.actors.node import Node
from runtime.plan.topology import Placement
from runtime.tracing.merging import Clock, Merged, merge, part_of, write_clocks
from runtime.tracing.tracer import Tracer

NUMBER = 1  # of the trace in its run


class LoopTracing:
    """`nodes`: those of the processes of `placement`; each of them is traced until `lead` has
    counted `iterations` steps, or the run is over. OSError."""

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
        """After a piece of work: is it enough?"""
        if self._lead.steps > self._ends_at:
            self._end()

    def close(self) -> Merged:
        """Make the file. OSError, ValueError."""
        self._end()
        for tracer in self._tracers:
            tracer.close()
        return merge(self._directory)

    def _end(self) -> None:
        for node in self._nodes.values():
            if node.router.tracer is not None:
                node.trace(None)

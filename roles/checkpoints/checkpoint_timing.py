"""The time at which a checkpoint is due, and the removal of old ones. Decisions only, no I/O."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.plan.topology import Topology

if TYPE_CHECKING:  # pydantic is slow to import, and role processes need none
    from roles.options import Checkpoint
    from runtime.config.sections import ClusterConfig

# the share of a run's seconds that training may wait for checkpoints that are due by time
MOST_EXPOSED = 0.01


@dataclass(frozen=True)
class Timing:
    """A checkpoint at least every so many `seconds` (0: never). The last `keep` of them stay."""

    seconds: float = 0.0
    keep: int = 3


NEVER = Timing()


class CheckpointTiming:
    """The timing of one run's checkpoints. Times are loop time in seconds.

    Checkpoints that the solver, a person or the end of the run asked for are `for_good`: they are
    not counted and never removed. Checkpoints that were due by time are removed once newer ones
    have been read back.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._due = math.inf
        self._timed: list[Path] = []

    def __repr__(self) -> str:
        return f"<a checkpoint every {self._timing.seconds:g} s, {len(self._timed)} kept by time>"

    def due(self, now: float) -> bool:
        """Is a checkpoint due?"""
        return now >= self._due

    def next(self, now: float, exposed: float = 0.0) -> float:
        """Seconds from now to the next checkpoint, if training waited `exposed` seconds for this
        one."""
        wait = (
            max(self._timing.seconds, exposed / MOST_EXPOSED) if self._timing.seconds else math.inf
        )
        self._due = now + wait
        return wait

    def written(self, path: Path, *, for_good: bool) -> list[Path]:
        """Note that a file was written and read back whole. Returns the files that are to be
        removed now."""
        self._timed = [one for one in self._timed if one != path] + ([] if for_good else [path])
        old = self._timed[: -self._timing.keep]
        self._timed = self._timed[-self._timing.keep :]
        return old


def with_timing(topology: Topology, said: Checkpoint, config: ClusterConfig) -> Topology:
    """The same topology, whose lead saves checkpoints as cluster.toml asks, if it is a lead that
    saves."""
    return lead_told(
        topology,
        timing=Timing(said.seconds if config.simulation.clock == "real" else 0.0, said.keep),
    )


def lead_told(topology: Topology, **options: Any) -> Topology:
    """The same topology with these options for its lead, as far as the lead has such options."""
    actors = tuple(
        dataclasses.replace(actor, options=_with(actor.options, options))
        if actor.name == topology.lead
        else actor
        for actor in topology.actors
    )
    return dataclasses.replace(topology, actors=actors)


def _with(said: Any, more: Mapping[str, Any]) -> Any:
    known = {key: value for key, value in more.items() if hasattr(said, key)}
    return dataclasses.replace(said, **known) if known else said

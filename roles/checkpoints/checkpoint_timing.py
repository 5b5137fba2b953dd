"""When a checkpoint is due by time, and which of them are removed. Plain decisions."""

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

# of a run's seconds: what training may wait for checkpoints that are due by time
MOST_EXPOSED = 0.01


@dataclass(frozen=True)
class Timing:
    """A checkpoint at least every so many `seconds` (0: never), of which the last `keep` stay."""

    seconds: float = 0.0
    keep: int = 3


NEVER = Timing()


class CheckpointTiming:
    """Of one run. Times are loop time in seconds.

    Those that the solver, a person or the end of the run asked for are `for_good`: they are counted
    nowhere and never removed. Those that came by time make room for newer ones, once these have
    been read back.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._due = math.inf
        self._timed: list[Path] = []

    def __repr__(self) -> str:
        return f"<a checkpoint every {self._timing.seconds:g} s, {len(self._timed)} kept by time>"

    def due(self, now: float) -> bool:
        """Is it time?"""
        return now >= self._due

    def next(self, now: float, exposed: float = 0.0) -> float:
        """Seconds to the next one, from now, where training waited `exposed` seconds for this
        one."""
        wait = (
            max(self._timing.seconds, exposed / MOST_EXPOSED) if self._timing.seconds else math.inf
        )
        self._due = now + wait
        return wait

    def written(self, path: Path, *, for_good: bool) -> list[Path]:
        """A file is written and was read back whole; those that are now to be removed."""
        self._timed = [one for one in self._timed if one != path] + ([] if for_good else [path])
        old = self._timed[: -self._timing.keep]
        self._timed = self._timed[-self._timing.keep :]
        return old


def with_timing(topology: Topology, said: Checkpoint, config: ClusterConfig) -> Topology:
    """The same, whose lead saves as cluster.toml says, if it is one that saves."""
    return lead_told(
        topology,
        timing=Timing(said.seconds if config.simulation.clock == "real" else 0.0, said.keep),
    )


def lead_told(topology: Topology, **options: Any) -> Topology:
    """The same, whose lead is told this, as far as it has such options."""
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

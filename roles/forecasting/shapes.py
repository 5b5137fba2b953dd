"""What a topology's actors work on, from their options alone: nets, layers, groups, rows. Nothing is computed.

What never lives here: what is sent (`traffic`), what is held (`footprint`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from nets import Net
from nets.sharding.division import ShardedNet
from roles.learning.batch_split import Shares
from roles.learning.job import Job
from roles.learning.wire_formats import Layers, layers_of
from roles.messages import TEST, TRAIN
from runtime.plan.topology import ActorSpec, Topology


class Shapes:
    """Of one topology. `shared_memory`: its processes read one another's arrays in place. Nets are built once for each
    job, part of the net and number of rows."""

    def __init__(self, topology: Topology, shared_memory: bool = True) -> None:
        self.topology, self.shared_memory = topology, shared_memory
        self._nets: dict[tuple[str, str, str, int], Net] = {}
        self._images: dict[str, tuple[int, int, int]] = {}

    def __repr__(self) -> str:
        return f"<shapes of {len(self.topology.actors)} actors, {len(self._nets)} nets built>"

    @cached_property
    def actors(self) -> dict[str, ActorSpec]:
        """By name."""
        return {actor.name: actor for actor in self.topology.actors}

    @cached_property
    def groups(self) -> list[list[str]]:
        """The workers of each group, by rank, as the coordinator has them."""
        return [list(members) for actor in self.topology.actors for members in actor.options.get("groups", ())]

    def having(self, option: str) -> list[ActorSpec]:
        """The actors that have this option, and something in it."""
        return [actor for actor in self.topology.actors if actor.options.get(option)]

    def job(self, actor: ActorSpec) -> Job:
        """The actor's job, on the CPU: shapes are the same on every device."""
        return dataclasses.replace(Job.from_options(actor.options["job"]), device="cpu")

    @cached_property
    def number(self) -> int:
        """Bytes of one, the same in every actor of a run."""
        return next(self.job(actor).dtype.itemsize for actor in self.having("job"))

    def size(self, layers: Layers) -> int:
        """Bytes of the parameters in these layers."""
        return self.number * sum(math.prod(shape) for blobs in layers.values() for shape, _ in blobs)

    def rows(self, worker: str, phase: str = TRAIN) -> int:
        """How many rows of its group's batch a worker computes at first, as the coordinator cuts it; all of them
        without a group."""
        job = self.job(self.actors[worker])
        batch = job.batch if phase == TRAIN else job.test_batch
        for members in self.groups:
            if worker in members:
                cuts, rank = self._shares.cuts(members, batch), members.index(worker)
                return cuts[rank + 1] - cuts[rank]
        return batch

    @cached_property
    def _shares(self) -> Shares:
        return next((Shares(**actor.options["shares"]) for actor in self.having("shares")), Shares())

    def net(self, actor: ActorSpec, part: str, rows: int = 0, phase: str = TRAIN) -> Net:
        """The part of the net ("conv", "fc", "all") that an actor builds, for so many rows; 0: for the whole batch."""
        job = self.job(actor)
        key = (json.dumps(job.to_options(), sort_keys=True, default=str), part, phase, rows)
        if key not in self._nets:
            sized = dataclasses.replace(job, batch=rows, test_batch=rows) if rows else job
            self._nets[key] = sized.build(phase, part, self._image(key[0], job))
        return self._nets[key]

    def shard(self, actor: ActorSpec, phase: str = TRAIN) -> ShardedNet:
        """The share of the FC phase that an FC shard builds."""
        job, shards = self.job(actor), actor.options["shards"]
        key = json.dumps(job.to_options(), sort_keys=True, default=str)
        return job.build_shard(phase, shards.index(actor.name), len(shards), self._image(key, job))

    def layers(self, actor: ActorSpec, part: str, named: Sequence[str] | None = None) -> Layers:
        """The layers with parameters of that part, all or some."""
        found = layers_of(self.net(actor, part))
        return found if named is None else {name: found[name] for name in named}

    def phases(self, actor: ActorSpec) -> tuple[str, ...]:
        """Those that the actor's job has data for."""
        return tuple(phase for phase in (TRAIN, TEST) if phase in self.job(actor).data)

    def _image(self, key: str, job: Job) -> tuple[int, int, int]:
        """The shape of the data: as some role was told it, else the data are opened, once."""
        told = self.having("image_shape")
        if key not in self._images:
            self._images[key] = tuple(told[0].options["image_shape"]) if told else job.source(TRAIN).shape
        return self._images[key]


def way_to(options: Mapping[str, Any], server: str) -> Mapping[str, Any] | None:
    """What a worker's options say of one of its model servers."""
    return next((way for way in options.get("models", ()) if way["server"] == server), None)

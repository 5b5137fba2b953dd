"""The nets, layers, groups and rows of a topology, from the options of its actors alone. Nothing is
computed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

from nets import Net
from nets.sharding.division import ShardedNet
from roles.learning.batch_split import Shares
from roles.learning.job import InputShape, Job
from roles.learning.wire_formats import Layers, layers_of
from roles.messages import TRAIN
from runtime.actor_options import plain
from runtime.plan.topology import Link, Topology


class Read(Enum):
    """The places where receivers read arrays that a sender on a GPU has made."""

    HOST = "copies in host memory"
    SHARED = "copies on the GPU, in memory that processes share"
    HERE = "the arrays themselves, in the sender's process"


class Shapes:
    """The shapes of one topology whose options are typed. `shared_memory`: its processes read one
    another's arrays in place.

    A net is built once for each job, part of the net and number of rows.
    """

    def __init__(self, topology: Topology, shared_memory: bool = True) -> None:
        self.topology = topology
        self.shared_memory = shared_memory
        self.options: dict[str, Any] = {actor.name: actor.options for actor in topology.actors}
        self._nets: dict[tuple[str, str, str, int], Net] = {}
        self._shards: dict[tuple[str, str, int, int], ShardedNet] = {}
        self._jobs: dict[int, tuple[Job, Job]] = {}  # id of a job -> it, and the first equal job
        self._texts: list[tuple[Job, Job, str]] = []  # (job, the job without a device, its text)
        # (first member of a group, rows of the batch) -> cuts
        self._cuts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._images: dict[str, InputShape] = {}
        self._passes: dict[int, tuple[Net, int, int]] = {}  # id of a net -> it, and two sizes

    def __repr__(self) -> str:
        return f"<shapes of {len(self.options)} actors, {len(self._nets)} nets built>"

    def having(self, option: str) -> dict[str, Any]:
        """The options of all actors whose options have this attribute with a value that is not
        empty."""
        return {
            name: options
            for name, options in self.options.items()
            if getattr(options, option, None)
        }

    @cached_property
    def groups(self) -> list[list[str]]:
        """The workers of each group by rank, from the coordinator's options."""
        return [
            list(members)
            for options in self.having("groups").values()
            for members in options.groups
        ]

    @cached_property
    def number(self) -> int:
        """Bytes of one number. It is the same for every actor of a run."""
        job: Job = next(options.job for options in self.having("job").values())
        return job.dtype.itemsize

    def size(self, layers: Layers) -> int:
        """Bytes of the parameters in these layers."""
        return self.number * sum(
            math.prod(shape) for blobs in layers.values() for shape, _ in blobs
        )

    def group(self, worker: str) -> list[str]:
        """The workers of this worker's group by rank. A worker without a group is alone in the
        list."""
        return self._places.get(worker, ([worker], 0))[0]

    @cached_property
    def _places(self) -> dict[str, tuple[list[str], int]]:
        """Worker -> its group and its rank there. The first group that lists the worker counts."""
        groups = reversed(self.groups)
        return {
            worker: (members, rank) for members in groups for rank, worker in enumerate(members)
        }

    @cached_property
    def senders(self) -> dict[str, list[tuple[str, Any]]]:
        """Parent of gradients -> the actors that send to it, in the order of the actors. With each
        actor comes its `ModelWay` to that parent, or its options if these name one parent."""
        found: dict[str, list[tuple[str, Any]]] = {}
        for name, options in self.options.items():
            for way in (*getattr(options, "models", ()), options):
                if (parent := getattr(way, "parent", None)) is not None:
                    found.setdefault(parent, []).append((name, way))
        return found

    def read(self, links: Collection[Link]) -> Read:
        """Where the receivers of all these links (sender, receiver) read arrays of a GPU."""
        known = self.topology.device_links
        if not links:
            return Read.HERE
        if not known or not all(link in known for link in links):
            return Read.HOST
        return Read.HERE if all(known[link].together for link in links) else Read.SHARED

    def off_device(self, size: int, links: Collection[Link]) -> int:
        """The bytes, of `size`, that are copied between a GPU and host memory for arrays on these
        links: none if all receivers read them on the GPU."""
        return size if self.read(links) is Read.HOST else 0

    def peers(self, actor: str) -> tuple[str, ...]:
        """The actors that it has links to, without the lead."""
        return self._peers.get(actor, ())

    @cached_property
    def _peers(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for one, other in self.topology.links:
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
        lead = self.topology.lead
        return {
            name: tuple(peer for peer in peers if peer != lead) for name, peers in found.items()
        }

    def cuts(self, worker: str, phase: str = TRAIN) -> tuple[int, ...]:
        """The cuts of the batch of this worker's group at the start of the run, as the coordinator
        makes them. A worker without a group has the batch uncut."""
        members = self.group(worker)
        rows = self.options[worker].job.rows(phase)
        if (members[0], rows) not in self._cuts:
            self._cuts[members[0], rows] = self._shares.cuts(members, rows)
        return self._cuts[members[0], rows]

    def rows(self, worker: str, phase: str = TRAIN) -> int:
        """The number of rows of its group's batch that a worker computes at the start of the run. A
        worker without a group computes all rows."""
        cuts, (_, rank) = self.cuts(worker, phase), self._places.get(worker, ([], 0))
        return cuts[rank + 1] - cuts[rank]

    @cached_property
    def _shares(self) -> Shares:
        return next(
            (Shares(options.shares) for options in self.having("shares").values()), Shares()
        )

    def net(self, job: Job, part: str, rows: int = 0, phase: str = TRAIN) -> Net:
        """The part of the net ("conv", "fc", "all") that an actor builds, for this number of rows;
        0: for the whole batch."""
        job, text = self._plainly(job)
        key = (text, part, phase, rows)
        if key not in self._nets:
            sized = (
                dataclasses.replace(job, batch=rows, test_batches=(rows,) * len(job.test_batches))
                if rows
                else job
            )
            self._nets[key] = sized.build(phase, part, self._image(job))
        return self._nets[key]

    def of_pass(self, net: Net) -> tuple[int, int]:
        """Bytes of the arrays of a pass through this net, and bytes of its scratch memory. The
        net's number of rows must not change."""
        if id(net) not in self._passes:
            self._passes[id(net)] = net, net.memory_plan.size, net.scratch
        return self._passes[id(net)][1:]

    def shard(self, job: Job, rank: int, of: int, phase: str = TRAIN) -> ShardedNet:
        """The share of the FC phase that an FC shard builds."""
        job, text = self._plainly(job)
        key = (text, phase, rank, of)
        if key not in self._shards:
            self._shards[key] = job.build_shard(phase, rank, of, self._image(job))
        return self._shards[key]

    def layers(self, job: Job, part: str, named: Sequence[str] | None = None) -> Layers:
        """The layers with parameters in that part of the net: all, or the `named` ones."""
        found = layers_of(self.net(job, part))
        return found if named is None else {name: found[name] for name in named}

    def _plainly(self, job: Job) -> tuple[Job, str]:
        """The job without a device, and its text. The text is made once, since it takes a
        millisecond."""
        first = self.same(job)
        return next((there, text) for known, there, text in self._texts if known is first)

    def same(self, job: Job) -> Job:
        """The first job that equals this one. Thousands of actors have one job each, and each job
        object would read its files again."""
        if id(job) not in self._jobs:
            first = next((known for known, _, _ in self._texts if known == job), None)
            if first is None:
                first = job
                there = _without_device(job)
                self._texts.append((job, there, _key(there)))
            self._jobs[id(job)] = job, first
        return self._jobs[id(job)][1]

    def _image(self, job: Job) -> InputShape:
        """The shapes of the data: from the options of a role that has them, else from the data,
        which are opened once."""
        told = self.having("image_shape")
        key = _key(job)
        if key not in self._images:
            shape = next((options.image_shape for options in told.values()), None)
            self._images[key] = _shapes_of(job) if shape is None else shape
        return self._images[key]


def _shapes_of(job: Job) -> InputShape:
    return job.all_shapes({phase: job.source(phase) for phase in job.phases})


def _without_device(job: Job) -> Job:
    """The job without the number of its GPU: shapes are the same on every device, and memory is the
    same on every GPU. Histograms do not change them either."""
    device = "cuda" if job.on_gpu else "cpu"
    return dataclasses.replace(job, device=device, rows_here={}, histograms=0)


def _key(job: Job) -> str:
    return json.dumps(plain(job), sort_keys=True, default=str)

"""The preset `sync` with a tally (see `role`) between each worker and the receiver of its
gradients."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

from roles.presets.merged import sync
from roles.presets.request import Preset, Request, keys
from runtime import ActorSpec, Topology
from tests.stranger.role import TallyOptions


@dataclass(frozen=True)
class Settings:
    """The settings in [train.strategy.options]."""

    every: int = 1


def tallied(request: Request) -> Topology:
    plain = sync(request)
    tallies: list[ActorSpec] = []

    def through(worker: str, parent: str) -> str:
        options = TallyOptions(
            parent=parent, layers=len(request.layers), every=request.options.every
        )
        tallies.append(ActorSpec(f"tally-{worker}", "tally", options))
        return f"tally-{worker}"

    workers = [name for name in (actor.name for actor in plain.actors) if name.startswith("conv-")]
    actors = [
        dataclasses.replace(actor, options=actor.options.redirected(partial(through, actor.name)))
        if actor.name in workers
        else actor
        for actor in plain.actors
    ]
    links = [
        link
        for tally in tallies
        for link in ((tally.name[6:], tally.name), (tally.name, tally.options.parent))
    ]
    return dataclasses.replace(plain, actors=(*actors, *tallies), links=(*plain.links, *links))


TALLIED = Preset(tallied, keys("workers fan_in shares"), options=Settings, equals_single=True)

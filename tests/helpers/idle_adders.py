"""The adders as a program for cluster.toml: a run that goes on until a command ends it."""

from __future__ import annotations

from pydantic import BaseModel

from runtime import ActorSpec, Topology
from runtime.config.sections import ClusterConfig
from tests.helpers.adders import Adder

ROLES = {"adder": Adder}


class Options(BaseModel):
    """The program has no options."""


def plan(config: ClusterConfig, options: Options) -> Topology:
    """Two adders that wait for numbers."""
    actors = tuple(ActorSpec(name, "adder", {}) for name in ("one", "two"))
    return Topology(__name__, actors, (), lead="one")

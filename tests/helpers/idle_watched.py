"""The watched program for cluster.toml: a run that goes on until a command ends it."""

from __future__ import annotations

import dataclasses

from pydantic import BaseModel

from runtime import Topology
from runtime.config.sections import ClusterConfig
from tests.helpers.watched import ROLES, watched

__all__ = ["ROLES"]


class Options(BaseModel):
    """The program has no options."""


def plan(config: ClusterConfig, options: Options) -> Topology:
    """The topology of `watched`, with this module as its program."""
    return dataclasses.replace(watched(), program=__name__)

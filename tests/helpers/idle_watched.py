"""The watched program for cluster.toml: a run that goes on until it is told to end."""

from __future__ import annotations

import dataclasses

from pydantic import BaseModel

from runtime import Topology
from runtime.config.sections import ClusterConfig
from tests.helpers.watched import ROLES, watched

__all__ = ["ROLES"]


class Options(BaseModel):
    """It has none."""


def plan(config: ClusterConfig, options: Options) -> Topology:
    """See watched."""
    return dataclasses.replace(watched(), program=__name__)

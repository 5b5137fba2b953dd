"""The configuration that a script's run writes into its config.toml: it describes the run to every
command that takes a cluster.toml."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from runtime.config.sections import ClusterConfig
from runtime.config.toml_source import CLUSTER_FILE
from runtime.plan.program import MAIN
from runtime.plan.topology import Topology

NO_FILE = "an interactive session"


def record_of(config: ClusterConfig, topology: Topology) -> ClusterConfig:
    """Return the configuration of a run that a script launches with the sections of `config`.

    The program's sections are those that the topology was made from. `run.script` names the script,
    unless the program plans this very topology from them.
    """
    origin = topology.origin
    said = config.simulation.service_times
    # relative paths of `launch` start from the working folder, those of the topology from its own
    times = None if said is None else str(config.raw.base / said)
    simulation = config.simulation.model_copy(update={"service_times": times})
    complete = origin is not None and origin.planned == topology
    run = config.run.model_copy(update={"script": None if complete else _script()})
    found = config.model_copy(update={"run": run, "simulation": simulation})
    if origin is None:
        return found
    found = found.model_copy(update={"program": origin.program, **origin.sections})
    found._raw = dataclasses.replace(config.raw, path=origin.base / CLUSTER_FILE)
    return found


def _script() -> str:
    file = getattr(sys.modules[MAIN], "__file__", None)
    return NO_FILE if file is None else str(Path(file).resolve())

"""The adders as a program that survives deaths; its processes die at their start while a certain
file exists.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from runtime import Topology
from runtime.config.sections import ClusterConfig
from tests.helpers import idle_adders
from tests.helpers.adders import Adder
from tests.helpers.idle_adders import Options

FILE = "CONVOY_TEST_MORTAL"  # names the environment variable with the path of that file


class Mortal(Adder):
    """An adder that cannot begin while the file exists."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if Path(os.environ[FILE]).exists():
            os.kill(os.getpid(), signal.SIGKILL)


ROLES = {"adder": Mortal}


def plan(config: ClusterConfig, options: Options) -> Topology:
    """The topology of the idle adders."""
    found = idle_adders.plan(config, options)
    return Topology(__name__, found.actors, (), lead=found.lead)


def resumed(config: ClusterConfig, options: Options, run: Path | None) -> tuple[Options, list[str]]:
    """Resume without a checkpoint."""
    return options, ["resumes    nothing"]

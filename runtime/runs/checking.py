"""From cluster.toml to a placed topology: reads and plans, starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.config.file import Loaded, load_with_program
from runtime.plan.placement import place
from runtime.plan.program import checked
from runtime.plan.topology import Placement

if TYPE_CHECKING:
    from runtime.cluster.launchers import Nursery


@dataclass(frozen=True)
class Checked:
    """A configuration that was read, planned and placed without a mistake."""

    loaded: Loaded
    placement: Placement


def check(path: Path, overrides: Sequence[str] = (), nursery: Nursery | None = None) -> Checked:
    """Read cluster.toml, plan and place. ConfigError with every mistake. `nursery`: it hears of the program as soon as
    that is known."""
    loaded = load_with_program(path, overrides, tell=None if nursery is None else nursery.prepare)
    topology = checked(loaded.program.plan(loaded.config, loaded.options))
    return Checked(loaded, place(topology, loaded.config))

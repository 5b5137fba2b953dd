"""The number of series on a role's metrics page, for every preset: each series costs Prometheus
memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roles import ROLES, Options, plan
from roles.planning.strategies import PRESETS
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.plan.program import made_of
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from tests.helpers.support import configure

MOST = 200
# the agent's 19, the process's 6, the build, and 5 that a model server shows after 64 iterations
MORE = 31


@pytest.mark.few("[omnivore]", "[firecaffe]")
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_no_role_has_more_than_200_series(preset: str, tmp_path: Path) -> None:
    cluster = configure(tmp_path, preset, workers=4, groups=2, iterations=6, batch=8, test=True)
    counts = series_of(cluster)
    assert {name: count for name, count in counts.items() if count > MOST - MORE} == {}


def series_of(cluster: Path) -> dict[str, int]:
    """Process -> series of its page at the end of a run on virtual time."""
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    placement = place(plan(loaded.config, loaded.options), loaded.config)
    counts: dict[str, int] = {}

    async def run() -> None:
        def watch(actor: str, event: str, fields: dict[str, Any]) -> None:
            if event == "finished":
                for name, (node, _) in simulation.nodes.items():
                    counts[name] = sum(
                        not line.startswith("#") for line in node.metrics.text().splitlines()
                    )

        simulation = Simulation(placement, directory=cluster.parent, watch=watch)
        await simulation.run(lambda spec: made_of(ROLES, spec))

    run_virtual(run())
    assert counts
    return counts

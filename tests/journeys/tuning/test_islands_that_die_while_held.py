"""Islands and outer servers that die while a tuner holds the run, tries settings, or puts the model
back: the run goes on, and its tuner chooses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from roles.coordination.probing import Probing
from runtime.simulation.cluster import Simulation
from tests.journeys.training.test_islands import islands
from tests.journeys.training.test_islands_that_come_and_go import fast_link, made, train

# before the coordinator does this for the first time, a process dies
MOMENTS = ["_keep", "_begin", "_put_back", "_release"]


@pytest.mark.few("[_keep-island-1-False]", "[_put_back-outer-True]", "[_put_back-island-2-True]")
@pytest.mark.parametrize(
    ("dies", "returns"),
    [("island-1", False), ("island-2", True), ("island-2", False), ("outer", True)],
)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_held_goes_on_though_a_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, dies: str, returns: bool
) -> None:
    running: list[Simulation] = []
    method = getattr(Probing, moment)
    tasks: list[asyncio.Task[None]] = []
    calls = 0

    async def noted(self: Probing, *more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await running[0].kill(dies, returns=returns)
            if returns:
                tasks.append(asyncio.create_task(running[0].restart(dies, made)))
        return await method(self, *more)

    async def script(simulation: Simulation) -> None:
        running.append(simulation)

    monkeypatch.setattr(Probing, moment, noted)
    cluster = islands(tmp_path, workers=3, iterations=250, batch=8, keys="period = 2\n")
    cluster.write_text(cluster.read_text().replace("[train]\n", '[train]\nbase_lr = "auto"\n', 1))
    simulation, _ = train(cluster, script, fast_link())
    assert simulation.journal.of("finished")
    assert calls
    assert bool(simulation.journal.of("joined")) == (returns and dies != "outer")

"""The work of `up` for a thousand machines with two processes each, until they begin. There are no
real machines.

`benchmarks.hosts --parts thousand` measures how long this work takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hosts.starts import PRESETS, begin
from runtime.config.file import load_with_program
from runtime.plan.placement import idle
from runtime.plan.run_plan import RunPlan


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
async def test_a_thousand_machines_are_planned_placed_and_started_with_a_few_messages_each(
    tmp_path: Path, preset: str
) -> None:
    begun = await begin(tmp_path, preset)
    processes = begun.placement.processes
    assert idle(begun.placement, load_with_program(tmp_path / "cluster.toml").config) == []
    # a Directory and a Begin for each process, and more for processes with thousands of peers, but
    # never one for each pair
    assert 2 * len(processes) < begun.messages < 5 * len(processes)
    assert len({spec.machine for spec in processes}) == 1000
    assert RunPlan.read(tmp_path).placement.processes == processes

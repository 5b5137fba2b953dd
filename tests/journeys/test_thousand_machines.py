"""A thousand machines with two processes each: what `up` computes until they begin, without the machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.hosts_starts import PRESETS, THOUSAND_BAR, begin
from runtime.config.file import load_with_program
from runtime.plan.placement import idle
from runtime.plan.run_plan import RunPlan


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
async def test_planning_placing_and_starting_a_thousand_machines_takes_less_than_five_seconds_of_a_core(
    tmp_path: Path, preset: str
) -> None:
    begun = await begin(tmp_path, preset)
    processes = begun.placement.processes
    assert idle(begun.placement, load_with_program(tmp_path / "cluster.toml").config) == []
    assert begun.messages > 2 * len(processes)  # a Directory and a Begin each, and more for who has thousands of peers
    assert len({spec.machine for spec in processes}) == 1000
    assert RunPlan.read(tmp_path).placement.processes == processes
    assert begun.seconds < THOUSAND_BAR

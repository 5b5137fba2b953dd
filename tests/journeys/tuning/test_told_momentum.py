"""A momentum that is too large for the number of groups is reported before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets import load_solver
from roles.options import Strategy
from roles.planning.compensating import told_of_momentum
from roles.planning.strategies import preset_called
from roles.tuning.momentum import can_compensate, compensated, expected, total
from runtime.cli.main import main
from tests.helpers.support import configure

HIGH = 0.97  # too high with two groups and more, by any rule


def said(preset: str, momentum: float, **strategy: int) -> str:
    solver = load_solver("lenet").override({"momentum": momentum})
    return told_of_momentum(solver, preset_called(preset), Strategy(preset=preset, **strategy))


def test_asynchronous_workers_with_a_high_momentum_get_a_warning_with_the_total() -> None:
    assert said("mxnet-async", HIGH, workers=2) == (
        f"preset 'mxnet-async' with momentum {HIGH} and 2 groups learns as with momentum "
        f"{total(HIGH, expected(2)):.3g}, and may diverge; "
        f"momentum {compensated(HIGH, 1):.3g} keeps the total at {HIGH}"
    )
    most = max(groups for groups in range(1, 64) if can_compensate(HIGH, groups - 1))
    assert said("omnivore", HIGH, workers=most + 1, groups=most + 1).endswith(
        f"; momentum 0, or fewer groups, come nearest to {HIGH}"
    )


@pytest.mark.parametrize(
    ("preset", "momentum", "workers"),
    [
        ("mxnet-async", compensated(0.9, 1), 2),
        ("sync", 0.99, 8),
        ("replicas", 0.99, 8),
        ("async", compensated(0.9, 3), 4),
        ("async", 0.0, 32),
    ],
)
def test_a_safe_total_gives_no_warning(preset: str, momentum: float, workers: int) -> None:
    assert said(preset, momentum, workers=workers) == ""


def test_check_names_the_key_of_the_momentum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = configure(tmp_path, "async", workers=2)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("momentum: 0.9", f"momentum: {HIGH}"))
    assert main(["check", str(cluster)]) == 0
    assert f"train.solver: preset 'async' with momentum {HIGH} and 2 groups" in caplog.text


def test_a_pipeline_counts_as_more_groups() -> None:
    """Workers of a pipeline are of other groups, also where the preset has one group."""
    assert said("sync", HIGH, workers=2) == ""
    assert f"with momentum {HIGH} and 2 groups" in said("sync", HIGH, workers=2, pipeline=2)
    assert f"with momentum {HIGH} and 4 groups" in said("async", HIGH, workers=2, pipeline=2)

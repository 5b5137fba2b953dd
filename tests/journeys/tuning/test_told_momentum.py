"""A momentum that is too large for the number of groups is reported before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nets import load_solver
from roles.options import Strategy
from roles.planning.compensating import told_of_momentum
from roles.planning.strategies import preset_called
from roles.tuning.momentum import compensated, expected, total
from runtime.cli.main import main
from tests.helpers.support import configure


def said(preset: str, momentum: float, **strategy: int) -> str:
    solver = load_solver("lenet").override({"momentum": momentum})
    return told_of_momentum(solver, preset_called(preset), Strategy(preset=preset, **strategy))


def test_two_asynchronous_workers_at_momentum_0_9_give_a_warning_with_the_total() -> None:
    assert said("mxnet-async", 0.9, workers=2) == (
        "preset 'mxnet-async' with momentum 0.9 and 2 groups learns as with momentum "
        f"{total(0.9, expected(2)):.3g}, and may diverge; "
        f"momentum {compensated(0.9, 1):.3g} keeps the total at 0.9"
    )
    assert said("omnivore", 0.9, workers=16, groups=16).endswith(
        "; momentum 0, or fewer groups, come nearest to 0.9"
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
    assert main(["check", str(cluster)]) == 0
    assert "train.solver: preset 'async' with momentum 0.9 and 2 groups" in caplog.text


def test_a_pipeline_counts_as_more_groups() -> None:
    """Workers of a pipeline are of other groups, also where the preset has one group."""
    assert said("sync", 0.9, workers=2) == ""
    assert "with momentum 0.9 and 2 groups" in said("sync", 0.9, workers=2, pipeline=2)
    assert "with momentum 0.9 and 4 groups" in said("async", 0.9, workers=2, pipeline=2)

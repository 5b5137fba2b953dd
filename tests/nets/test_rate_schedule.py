"""Schedules of cluster.toml compared with PyTorch's schedulers, and with their definitions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nets import RateSchedule, SolverExtras, load_solver
from nets.definition.rate_schedule import KINDS

LAST = 40


def factors(schedule: RateSchedule, last: int = LAST) -> list[float]:
    return [schedule.rate_factor(iteration, last) for iteration in range(last)]


def of_torch(make) -> list[float]:
    """The factors of a scheduler of PyTorch, which `make` makes for an optimizer."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(LAST):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def warmed(schedulers, optimizer, after):
    """A warm-up of 8 iterations from a quarter, then `after`."""
    begin = schedulers.LinearLR(optimizer, start_factor=0.25, total_iters=8)
    return schedulers.SequentialLR(optimizer, [begin, after], milestones=[8])


WARM = {"warmup": 8, "warmup_from": 0.25}
AGAINST_TORCH = {
    "cosine": (
        RateSchedule("cosine", end=0.125),
        lambda s, o: s.CosineAnnealingLR(o, LAST, eta_min=0.125),
    ),
    "cosine after a warm-up": (
        RateSchedule("cosine", **WARM),
        lambda s, o: warmed(s, o, s.CosineAnnealingLR(o, LAST - 8)),
    ),
    "linear": (
        RateSchedule("linear", end=0.1),
        lambda s, o: s.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=LAST),
    ),
    "steps": (
        RateSchedule("step", at=(10, 30), factor=0.2),
        lambda s, o: s.MultiStepLR(o, [10, 30], gamma=0.2),
    ),
    "equal steps": (RateSchedule("step", every=7, factor=0.5), lambda s, o: s.StepLR(o, 7, 0.5)),
    "one-cycle": (
        RateSchedule("one-cycle", warmup=12, warmup_from=0.04, end=4e-6),
        lambda s, o: s.OneCycleLR(o, 1.0, total_steps=LAST, cycle_momentum=False),
    ),
    "one-cycle of straight lines": (
        RateSchedule("one-cycle", warmup=8, warmup_from=0.1, end=0.001, shape="linear"),
        lambda s, o: s.OneCycleLR(
            o,
            1.0,
            total_steps=LAST,
            pct_start=0.2,
            anneal_strategy="linear",
            div_factor=10,
            final_div_factor=100,
            cycle_momentum=False,
        ),
    ),
}


@pytest.mark.filterwarnings("ignore")  # SequentialLR calls its schedulers in a deprecated way
@pytest.mark.parametrize("name", AGAINST_TORCH)
def test_the_rates_are_those_of_pytorch(name):
    schedule, make = AGAINST_TORCH[name]
    assert factors(schedule) == pytest.approx(of_torch(make), rel=1e-10, abs=1e-14)


def test_a_cosine_falls_from_its_warm_up_to_its_end():
    found = factors(RateSchedule("cosine", warmup=10, warmup_from=0.1))
    assert found[0] == 0.1
    assert found[:11] == sorted(found[:11])
    assert found[10] == 1
    assert found[10:] == sorted(found[10:], reverse=True)
    assert found[25] == pytest.approx(0.5)
    assert found[39] == pytest.approx((1 + math.cos(math.pi * 29 / 30)) / 2)


def test_steps_are_counted_from_the_first_iteration_also_with_a_warm_up():
    found = factors(RateSchedule("step", at=(20,), warmup=4, warmup_from=0.5))
    assert (found[0], found[2], found[4], found[19], found[20]) == (0.5, 0.75, 1, 1, 0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [1, 2, 5])
@pytest.mark.parametrize("warmup", [0, 1, 5])
def test_short_runs_have_finite_rates(kind, last, warmup):
    schedule = RateSchedule(kind, warmup=warmup, every=2)
    assert all(0 <= factor <= 1 for factor in factors(schedule, last))


def test_a_warm_up_multiplies_the_solvers_own_policy(tmp_path):
    file = tmp_path / "s.prototxt"
    file.write_text('base_lr: 0.5 lr_policy: "step" gamma: 0.5 stepsize: 3 max_iter: 8', "utf-8")
    plain = load_solver(file)
    warm = replace(plain, extras=SolverExtras(RateSchedule(warmup=2, warmup_from=0.0)))
    assert [warm.rate(at) for at in range(4)] == [0, 0.25, 0.5, 0.25]
    assert warm.override({"base_lr": 1.0}).rate(1) == 0.5
    cosine = replace(plain, extras=SolverExtras(RateSchedule("cosine")))
    assert (cosine.rate(0), cosine.rate(4)) == (0.5, pytest.approx(0.25))

"""The grid of rules for momentum: its settings, the choice of its probes, its verdict and its
picture, without a run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.helpers.report import Record
from benchmarks.tuning.kept import Kept
from benchmarks.tuning.rules import (
    MOMENTUM,
    Cell,
    Net,
    Runs,
    _judge,
    _probed,
    _table,
    picture,
    rules,
)
from benchmarks.tuning.runs import Reached, Setting, Task

NAMES = tuple(rules(2))


@pytest.mark.parametrize(
    ("groups", "plain", "total", "delay"),
    [(2, 0.4, 0.8, 0.888889), (4, 0.15, 0.6, 0.857143), (8, 0.025, 0.2, 0.666667), (16, 0, 0, 0)],
)
def test_each_rule_has_the_momentum_of_its_formula(
    groups: int, plain: float, total: float, delay: float
) -> None:
    found = {name: makers[0](0.01) for name, makers in rules(groups).items()}
    assert [found[name].momentum for name in NAMES] == pytest.approx([plain, total, delay, total])
    assert {setting.base_lr for setting in found.values()} == {0.01}


def test_the_second_setting_of_each_rule_keeps_the_gain_of_one_group() -> None:
    for makers in rules(4).values():
        setting = makers[1](0.01)
        assert setting.base_lr / (1 - setting.momentum) == pytest.approx(0.01 / (1 - MOMENTUM))


def runs(tmp_path: Path, losses: dict[Setting, float]) -> Runs:
    """Kept runs of a net, with these mean losses after their probes."""
    task = Task("net", {}, 100, loss=1.0, usual=0.01)
    kept = Kept(tmp_path / "rules.jsonl")
    for setting, loss in losses.items():
        name = f"net to a mean loss of 1 in 100, exponential, {setting}, seed 1"
        kept.put(name.replace(" in 100", ""), {"way": [(1.0, 2.3), (2.0, loss)]})
    return Runs(Net("net", task, ("exponential",), (2,)), "exponential", kept)


def test_a_probe_takes_another_rate_only_if_its_loss_is_clearly_lower(tmp_path: Path) -> None:
    plain, bold = Setting(2, 0.8, 0.01), Setting(2, 0.8, 0.02)
    assert _probed(runs(tmp_path, {plain: 2.0, bold: 1.95}), [plain, bold], 1) == plain
    assert _probed(runs(tmp_path, {plain: 2.0, bold: 1.8}), [plain, bold], 1) == bold
    assert _probed(runs(tmp_path, {plain: 2.0, bold: math.inf}), [plain, bold], 1) == plain


def made(seconds: float | None, *, diverged: bool = False) -> list[tuple[Setting, Reached]]:
    return [(Setting(2, 0.8, 0.01), Reached(seconds=seconds, diverged=diverged))]


def judged(cells: list[Cell]) -> Record:
    record = Record("rules")
    _table(record, cells)
    _judge(record, cells)
    return record


def test_the_chosen_rule_must_be_near_the_best_in_four_of_five_cells() -> None:
    near = Cell("net", "exponential", 2, {**{name: made(10.0) for name in NAMES}})
    far = Cell("net", "exponential", 4, {**near.taken, "chosen": made(10.4)})
    assert judged([near, near, near, near, far]).status == "running"
    assert judged([near, near, near, far]).status == "failed"


def test_a_chosen_rule_that_ends_in_nan_where_another_does_not_fails() -> None:
    fine = Cell("net", "exponential", 2, {name: made(10.0) for name in NAMES})
    nan = Cell("net", "exponential", 4, {**fine.taken, "chosen": made(None, diverged=True)})
    assert judged([fine] * 9 + [nan]).status == "failed"


def test_the_picture_has_a_panel_for_each_net_and_law() -> None:
    cells = [
        Cell("net", law, groups, {name: made(10.0) for name in NAMES})
        for law in ("exponential", "measured")
        for groups in (2, 4)
    ]
    drawn = picture(cells)
    assert "net, exponential" in drawn
    assert "net, measured" in drawn

"""Seconds until a loss is reached, on machines in slow motion: what a life is, how lives are
judged, and both sides once at a small size."""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import math
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.helpers.machines import Machine
from benchmarks.helpers.quotas import quotas
from benchmarks.helpers.report import Record
from benchmarks.hosts import hosts, learning
from benchmarks.hosts import lives as hosts_lives
from benchmarks.hosts.clusters import WORKS, Work
from benchmarks.hosts.learning import GOALS, Goal
from benchmarks.hosts.lives import SLOWER, Bench, Life
from benchmarks.hosts.sides import Learnt
from benchmarks.messages.pair import Lost
from runtime import Event

NOWHERE = [Machine(f"nowhere{number}", f"10.87.64.{number + 1}") for number in range(2)]
GOAL = Goal(1.0, 2.0, 100, "idx", "mnist", {"images": "images*", "labels": "labels*"})
TUNING = (
    Event(1.0, "tuner", "tuning", {"why": "so"}),
    Event(2.0, "tuner", "probe", {"groups": 2, "seconds": 4.0, "kept": True}),
    Event(3.0, "tuner", "probe", {"groups": 4, "seconds": 5.0}),
    Event(4.0, "tuner", "tuning", {"groups": 2, "probes": 2, "seconds": 12.0}),
)


def life(seconds: float, loss: float = GOAL.loss, busy: float = 0.5) -> Life:
    """A life of 10 iterations."""
    return Life(Learnt(seconds, 10, loss, seconds / 2), TUNING, (0.5, 0.25), busy)


def mnist(folder: Path) -> Path:
    """Files of MNIST's format with 64 images, each of one class's grey. Returns the folder of
    data."""
    at = folder / "mnist"
    at.mkdir(parents=True)
    labels = (np.arange(64) % 10).astype(np.uint8)
    pixels = np.repeat(25 * labels, 28 * 28).astype(np.uint8)
    for name, header, data in (
        ("train-images-idx3-ubyte.gz", struct.pack(">4I", 0x803, 64, 28, 28), pixels),
        ("train-labels-idx1-ubyte.gz", struct.pack(">2I", 0x801, 64), labels),
    ):
        (at / name).write_bytes(gzip.compress(header + data.tobytes()))
    return folder


def asked(**more: Any) -> argparse.Namespace:
    """The arguments of the command."""
    return argparse.Namespace(**{"machines": 2, "nets": ["lenet"], "lives": 2, **more})


def test_probes_that_count_as_training_do_not_hold_a_run() -> None:
    found = life(1.0)
    assert found.held == pytest.approx((12.0 - 4.0) / SLOWER)
    assert found.chosen == ["why so", "groups 2, probes 2, seconds 12.0"]


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (life(6.0), life(4.0), 1.5),
        (life(6.0), life(4.0, GOAL.loss + 0.1), 0.0),
        (life(6.0), life(4.0, math.nan), 0.0),
        (life(6.0), None, 0.0),
        (life(6.0, GOAL.loss + 0.1), life(4.0), None),
        (None, life(4.0), None),
    ],
)
def test_a_life_of_ours_without_the_loss_counts_as_zero_and_one_of_ddp_does_not_count(
    theirs: Life | None, ours: Life | None, expected: float | None
) -> None:
    assert learning.sooner(GOAL, theirs, ours) == expected


def test_the_early_loss_is_compared_too() -> None:
    never = dataclasses.replace(life(4.0), learnt=Learnt(4.0, 10, GOAL.loss))
    assert learning.sooner_early(life(6.0), life(4.0)) == 1.5
    assert learning.sooner_early(life(6.0), never) == 0.0
    assert learning.sooner_early(life(6.0), None) == 0.0
    assert learning.sooner_early(never, life(4.0)) is None


@pytest.mark.parametrize(
    ("ratios", "status", "said"),
    [
        (
            (1.1, 1.3, 1.2),
            "running",
            "n: DDP's seconds divided by ours: 1.20, least 1.10, most 1.30",
        ),
        ((1.1, 1.3, 1.1), "failed", "MISSED n: DDP's seconds divided by ours: 1.10"),
        ((), "failed", "n: no life of DDP reached the loss"),
    ],
)
def test_a_net_is_judged_by_the_median_of_its_lives(
    ratios: tuple[float, ...], status: str, said: str
) -> None:
    record = Record("r")
    learning.judge(record, "n", ratios)
    assert record.status == status
    assert record.notes[-1].startswith(said)


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        (life(1.0), "running", []),
        (life(1.0, busy=1.0), "running", ["the real cores were busy"]),
        (life(1.0, 1.1), "failed", ["a loss of 1.100 after 1 s, expected 1.0"]),
        (life(1.0, math.nan), "failed", ["a loss of nan after 1 s, expected 1.0"]),
    ],
)
def test_a_row_tells_what_makes_a_life_doubtful(found: Life, status: str, said: list[str]) -> None:
    record = Record("r")
    record.table("t")
    learning.reached(record, GOAL, "n", 3, "ours", found, 1.5, 0.9)
    assert record.status == status
    assert [part in note for part, note in zip(said, record.notes, strict=True)] == [True] * len(
        said
    )
    ((*start, held, ratio, early, at_first, first, mean, _),) = record.tables[0].rows
    assert start[:5] == ["n", 3, "ours", 1.0, 10]
    assert (held, ratio, early, at_first) == (found.held, 1.5, 0.5, 0.9)
    assert (first, mean) == (0.5, 0.25)


def test_each_seed_has_a_life_of_ddp_and_one_of_ours_and_errors_end_only_their_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived: list[tuple[str, int]] = []

    async def ddp(self: Bench, options: dict[str, Any], loss: float, early: float) -> Life:
        lived.append(("DDP", options["seed"]))
        return life(6.0, loss)

    async def ours(
        self: Bench, work: Work, data: Any, seed: int, loss: float, early: float, many: int
    ) -> Life:
        lived.append(("ours", seed))
        if seed == 2:
            raise Lost("gone")
        return life(4.0, loss)

    monkeypatch.setattr(Bench, "ddp", ddp)
    monkeypatch.setattr(Bench, "ours", ours)
    monkeypatch.setattr(learning, "tuned_ddp", lambda *_: {"rate": 0.1})
    monkeypatch.setattr(learning, "machines", lambda *_: nullcontext(NOWHERE))
    monkeypatch.setattr(learning, "quotas", lambda *_: nullcontext([]))
    record = Record("r")
    learning.learning(record, asked(data=mnist(tmp_path), lives=3))
    assert lived == [(side, seed) for seed in (1, 2, 3) for side in ("DDP", "ours")]
    assert record.status == "failed"
    assert "lenet, life 2, ours: gone" in record.notes
    assert record.notes[-1].startswith(
        "lenet: DDP's seconds divided by ours: 1.50, least 0.00, most 1.50 of 3 lives"
    )


def test_a_net_without_its_data_is_left_out_with_the_names_of_folder_and_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "machines", lambda *_: nullcontext(NOWHERE))
    monkeypatch.setattr(learning, "quotas", lambda *_: nullcontext([]))
    record = Record("r")
    learning.learning(record, asked(data=tmp_path))
    assert record.status == "skipped"
    assert record.notes == [
        f"lenet is left out: {tmp_path / 'mnist'} has no train-images-idx3-ubyte*; --data names "
        "the folder of mnist"
    ]


def test_other_nets_and_no_lives_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    record = Record("r")
    learning.learning(record, asked(nets=["caffenet"]))
    assert record.status == "skipped"
    assert record.notes == ["left out: it measures cifar10_quick and lenet; --nets names neither"]
    with pytest.raises(SystemExit):
        hosts.main(["--parts", "learning", "--lives", "0"])
    assert "argument --lives: found 0, expected at least 1" in capsys.readouterr().err


def test_without_slow_machines_the_part_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hosts, "missing", lambda modules: [])
    monkeypatch.setattr(learning, "machines", lambda *_: nullcontext(NOWHERE))
    monkeypatch.setattr(learning, "quotas", lambda count, slower: quotas(count, slower, tmp_path))
    told = ["--parts", "learning", "--results", str(tmp_path / "results")]
    assert hosts.main(told) == 0
    assert "left out: no machines here: no quota of a processor" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_ddp_gets_the_rate_that_needs_the_fewest_iterations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone(kind: str, options: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert (kind, options["rows"], options["window"]) == ("grid", 128, hosts_lives.WINDOW)
        first, second, third = map(str, options["rates"])
        return {first: 90, second: 60, third: None}

    monkeypatch.setattr(learning, "torch_times", lambda options: {"layout": "nhwc"})
    monkeypatch.setattr(learning, "alone", alone)
    record = Record("r")
    found = learning.tuned_ddp(record, GOAL, WORKS["lenet"], {}, 8)
    assert (found["rate"], found["layout"], found["rows"]) == (
        WORKS["lenet"].rate * learning.FACTORS[1],
        "nhwc",
        16,
    )
    assert "by rate: 0.03 90, 0.1 60, 0.01 not sooner" in record.notes[-1]
    monkeypatch.setattr(learning, "alone", lambda *_: {"0.1": None})
    with pytest.raises(Lost, match=r"DDP reaches a loss of 1\.0 at no rate within 100"):
        learning.tuned_ddp(record, GOAL, WORKS["lenet"], {}, 8)


def test_a_grid_stops_a_rate_that_is_behind_the_best_or_diverges(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.hosts import peer

    losses = iter((3.0, 2.0, 1.0, 1.0))
    found = peer.iterations_to(lambda: torch.tensor(next(losses)), 1.0, 2, 9)
    assert found == 4
    assert peer.iterations_to(lambda: torch.tensor(2.0), 1.0, 2, 9) is None
    assert peer.iterations_to(lambda: torch.tensor(math.nan), 1.0, 2, 9) is None
    data = learning.data_of(GOALS["lenet"], mnist(tmp_path))
    options = {**vars(WORKS["lenet"]), "rows": 32, "layout": "nchw", "data": data, "seed": 0}
    asked = {"rates": [0.01, 1e9], "target": 9.0, "window": 2, "most": 5}
    assert peer.grid({**options, **asked}) == {"0.01": 2, "1000000000.0": None}


def test_processes_share_each_batch_of_the_named_data(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from benchmarks.hosts.rows import rows_of

    data = learning.data_of(GOALS["lenet"], mnist(tmp_path))
    options = {"rows": 32, "data": data, "seed": 1}
    mine, theirs = (rows_of(options, torch.contiguous_format, rank, 2) for rank in (0, 1))
    for _ in range(2):  # two epochs
        parts = [mine(), theirs()]
        labels = torch.cat([labels for _, labels in parts])
        assert sorted(labels.tolist()) == sorted(number % 10 for number in range(64))
        for images, found in parts:
            grey = (25 * found / 256).reshape(-1, 1, 1, 1).expand(-1, 1, 28, 28)
            assert torch.equal(images, grey)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_both_sides_learn_on_slow_machines_with_all_processes_on_their_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    small = Work("lenet", (1, 28, 28), 10, 16, 0.01, 0.0005)
    monkeypatch.setattr(learning, "WORKS", {"lenet": small})
    goal = GOALS["lenet"]
    easy = Goal(2.6, 2.8, 200, goal.format, goal.folder, goal.files)
    monkeypatch.setattr(learning, "GOALS", {"lenet": easy})
    monkeypatch.setattr(learning, "FACTORS", learning.FACTORS[:1])
    monkeypatch.setattr(learning, "REPEATS", 2)
    for module in (learning, hosts_lives):
        monkeypatch.setattr(module, "WINDOW", 10)
    told = ["--parts", "learning", "--machines", "2", "--lives", "1", "--results", str(tmp_path)]
    hosts.main([*told, "--data", str(mnist(tmp_path / "data"))])
    found = list(tmp_path.glob("hosts-*.json"))
    if not found:
        pytest.skip("slow machines cannot be made here")
    part = json.loads(found[0].read_text())["parts"]["learning"]
    rows = {row[2]: row for row in part["tables"][0]["rows"]}
    assert set(rows) == {"DDP", "ours"}, part["notes"]
    for _, _, _, seconds, iterations, loss, *_, first, mean, _ in rows.values():
        assert seconds > 0
        assert iterations >= hosts_lives.WINDOW
        assert loss <= 2.6
        assert min(first, mean) > 0  # quotas were used up

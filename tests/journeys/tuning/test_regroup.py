"""Changes during a run: other groups, other workers, other rates, without a sample lost or trained
twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from roles import ROLES, Options, plan
from roles.messages import TRAIN, Done, Regroup, Ticket
from roles.workers.passes import Passes
from runtime import Actor, Refused
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from tests.helpers.support import Simulated, configure, train, with_actor

# iterations; runs with other sums differ from the first one on
# (`test_without_it_the_bits_differ...`)
BITS = 30
LONG = 120  # iterations: room for 50 changes
LIVE = ["train.strategy.live=true", "train.batch=16"]
Wish = dict[str, Any]


class Meddler(Actor):
    """An actor that asks the coordinator for one change after the other, at random times."""

    def __init__(self, *, wishes: list[Wish], seed: int = 1) -> None:
        self._wishes = wishes
        self._random = random.Random(seed)

    async def run(self) -> None:
        for wish in self._wishes:
            await asyncio.sleep(self._random.uniform(0, 0.12))
            try:
                await self.ask("coordinator", Regroup(**wish), Done)
                self.emit("granted", **wish)
            except Refused as refused:
                self.emit("refused", reason=str(refused))


def meddled(cluster: Path, wishes: list[Wish], settings: list[str], seed: int = 1) -> Journal:
    """Run on virtual time with a meddler. An iteration takes about 0.3 seconds."""
    loaded = load_with_program(cluster, settings)
    assert isinstance(loaded.options, Options)
    more = with_actor(
        plan(loaded.config, loaded.options), "meddler", {"wishes": wishes, "seed": seed}
    )
    delays = random.Random(seed)
    return run_virtual(
        simulate(
            place(more, loaded.config),
            {**ROLES, "meddler": Meddler},
            directory=cluster.parent,
            service_time=lambda actor, label: delays.uniform(0.0, 0.04),
        )
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[tuple[int, int]]]:
    """Training iteration -> the rows of it that each worker read, in the order of reading."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    original = Passes.read

    def note(passes: Passes, net: Any, ticket: Ticket) -> None:
        if ticket.phase == TRAIN:
            found[ticket.number].append(ticket.mine)
        original(passes, net, ticket)

    monkeypatch.setattr(Passes, "read", note)
    return found


def every_sample_once(read: dict[int, list[tuple[int, int]]], iterations: int, rows: int) -> None:
    assert sorted(read) == list(range(iterations))
    for ranges in read.values():
        assert [row for low, high in sorted(ranges) for row in range(low, high)] == list(
            range(rows)
        )


@pytest.mark.slow
def test_50_random_regroups_lose_no_sample_and_train_none_twice(
    tmp_path: Path, read: dict[int, list[tuple[int, int]]]
) -> None:
    chance = random.Random(7)
    wishes: list[Wish] = []
    for _ in range(50):
        workers = chance.randint(1, 8)
        rates = {"momentum": 1 - 1 / workers, "base_lr": 0.005} if chance.random() < 0.5 else {}
        wishes.append({"workers": workers, "groups": chance.randint(1, workers), **rates})
    cluster = configure(tmp_path, "omnivore", workers=8, groups=3, iterations=350, test=True)
    journal = meddled(cluster, wishes, LIVE)
    assert len(journal.of("granted")) == 50
    changes = [
        wish
        for before, wish in itertools.pairwise([{}, *wishes])
        if not wish.items() <= before.items()  # a wish that changes nothing is not reported
    ]
    assert len(changes) < len(wishes)
    assert [fields["groups"] for fields in journal.of("regrouped")] == [
        wish["groups"] for wish in changes
    ]
    every_sample_once(read, 350, 16)
    sizes = {len(ranges) for ranges in read.values()}
    assert len(sizes) >= 5  # groups of many sizes really trained
    (end,) = journal.of("finished")
    assert end["accuracy"] > 0.9


def reproducible(directory: Path, workers: int, iterations: int) -> Simulated:
    cluster = configure(directory, "sync", workers=workers, iterations=iterations)
    cluster.write_text(cluster.read_text() + "reproducible = true\n")
    return train(cluster)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A reproducible run of one worker."""
    return reproducible(tmp_path_factory.mktemp("alone"), 1, BITS)


@pytest.mark.slow
def test_a_reproducible_run_regrouped_50_times_has_the_bits_of_an_undisturbed_one(
    tmp_path: Path, read: dict[int, list[tuple[int, int]]]
) -> None:
    chance = random.Random(3)
    wishes = [{"workers": chance.choice([1, 2, 4, 8]), "groups": 1} for _ in range(50)]
    cluster = configure(tmp_path, "omnivore", workers=8, groups=1, iterations=LONG)
    journal = meddled(cluster, wishes, [*LIVE, "train.strategy.reproducible=true"])
    assert len(journal.of("granted")) == 50
    every_sample_once(read, LONG, 16)
    arrays = _arrays(tmp_path, journal)
    for name, expected in reproducible(tmp_path / "undisturbed", 1, LONG).arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("clip", ["", "clip_norm = 0.5\n"])
def test_regrouped_runs_with_todays_optimizers_have_the_bits_of_an_undisturbed_one(
    tmp_path: Path, clip: str
) -> None:
    sections = (
        f"[train.optimizer]\ntype = 'AdamW'\nweight_decay = 0.05\n{clip}"
        "[train.schedule]\ntype = 'cosine'\nwarmup = 3\n[train.ema]\ndecay = 0.75\n"
    )
    wishes = [{"workers": workers, "groups": 1} for workers in (2, 4, 1)]
    settings = ["train.strategy.reproducible=true", "train.batch=16"]
    options = {"groups": 1, "iterations": 20, "more": sections}
    cluster = configure(tmp_path, "omnivore", workers=4, **options)
    journal = meddled(cluster, wishes, [*settings, "train.strategy.live=true"])
    assert len(journal.of("granted")) == 3
    alone = configure(tmp_path / "undisturbed", "single", workers=1, **options)
    alone.write_text(alone.read_text() + "reproducible = true\n")
    arrays = _arrays(tmp_path, journal)
    for name, expected in train(alone).arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name


def test_regrouped_runs_with_frozen_layers_have_the_bits_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    def frozen(directory: Path, preset: str, workers: int) -> Path:
        cluster = configure(directory, preset, workers=workers, groups=1, iterations=20)
        text = cluster.read_text()
        keys = f'[train]\nweights = "{first}"\nfreeze = ["conv1", "ip1"]\n'
        cluster.write_text(text.replace("[train]\n", keys) + "reproducible = true\n")
        return cluster

    train(configure(tmp_path / "first", "single", iterations=2))
    first = tmp_path / "first" / "checkpoint-0000002.safetensors"
    wishes = [{"workers": workers, "groups": 1} for workers in (2, 4, 1)]
    journal = meddled(frozen(tmp_path, "omnivore", 4), wishes, ["train.strategy.live=true"])
    assert len(journal.of("granted")) == 3
    arrays = _arrays(tmp_path, journal)
    before, _ = checkpoint.load(first)
    for name, expected in train(frozen(tmp_path / "undisturbed", "single", 1)).arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name
        kept = arrays[name].tobytes() == before[name].tobytes()
        assert kept == name.startswith(("conv1.", "ip1.")), name


def _arrays(directory: Path, journal: Journal) -> dict[str, np.ndarray]:
    arrays, _ = checkpoint.load(directory / journal.of("checkpoint")[-1]["file"])
    return arrays


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_reproducible_run_has_the_same_bits_with_any_number_of_members(
    tmp_path: Path, alone: Simulated, workers: int
) -> None:
    found = reproducible(tmp_path, workers, BITS)
    for name, expected in alone.arrays.items():
        assert found.arrays[name].tobytes() == expected.tobytes(), name


def test_without_it_the_bits_differ_so_the_comparison_means_something(tmp_path: Path) -> None:
    one, two = (
        train(configure(tmp_path / str(n), "sync", workers=n, iterations=5)) for n in (1, 2)
    )
    assert any(one.arrays[name].tobytes() != two.arrays[name].tobytes() for name in one.arrays)


def test_rates_change_for_every_layer_between_two_iterations(tmp_path: Path) -> None:
    """With a learning rate of 0, nothing is learnt after the change."""
    cluster = configure(tmp_path, "sync", workers=2, iterations=40)
    journal = meddled(cluster, [{"base_lr": 0.0, "momentum": 0.0}], [])
    (changed,) = journal.of("regrouped")
    assert 0 < changed["iteration"] < 35
    arrays = _arrays(tmp_path, journal)
    before = train(
        configure(tmp_path / "before", "sync", workers=2, iterations=changed["iteration"])
    )
    for name, expected in before.arrays.items():
        if "history" not in name:
            assert arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"workers": 9}, "found 9 workers, expected 1 to 3, the workers that were started"),
        ({"groups": 4}, "found 4 groups, expected 1 to 3, one per worker at most"),
        ({"momentum": 1.5}, "found 1.5, expected 0 <= momentum < 1"),
        ({"base_lr": float("nan")}, "found base_lr nan, expected a finite number"),
        ({"momentum": float("-inf"), "groups": 2}, "found momentum -inf, expected a finite number"),
    ],
)
def test_an_impossible_change_is_refused_in_words_and_the_run_goes_on(
    tmp_path: Path, wish: Wish, reason: str
) -> None:
    journal = meddled(configure(tmp_path, "omnivore", workers=3, iterations=8), [wish], LIVE)
    (refused,) = journal.of("refused")
    assert reason in refused["reason"]
    assert journal.of("finished")[0]["iterations"] == 8


class Impatient(Meddler):
    """A meddler that asks for all changes at once."""

    async def run(self) -> None:
        asks = [self.ask("coordinator", Regroup(**wish), Done) for wish in self._wishes]
        for answer in await asyncio.gather(*asks, return_exceptions=True):
            self.emit("granted" if isinstance(answer, Done) else "refused", reason=str(answer))


def test_a_change_that_another_change_makes_impossible_is_refused_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.journeys.tuning.test_regroup.Meddler", Impatient)
    cluster = configure(tmp_path, "omnivore", workers=3, iterations=8)
    journal = meddled(cluster, [{"workers": 1, "groups": 1}, {"groups": 3}], LIVE)
    assert len(journal.of("granted")) == 1
    assert (
        "found 3 groups, expected 1 to 1, one per worker at most"
        in journal.of("refused")[0]["reason"]
    )
    assert journal.of("finished")[0]["iterations"] == 8


def test_a_run_that_was_not_prepared_for_changes_names_the_setting(tmp_path: Path) -> None:
    journal = meddled(configure(tmp_path, "omnivore", workers=3, iterations=8), [{"groups": 2}], [])
    assert ("was not prepared for it: set train.strategy.live = true") in journal.of("refused")[0][
        "reason"
    ]


def test_a_pipeline_trains_two_batches_on_each_machine(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "omnivore", workers=2, groups=1, iterations=40)
    loaded = load_with_program(cluster, ["train.strategy.pipeline=2"])
    assert isinstance(loaded.options, Options)
    placement = place(plan(loaded.config, loaded.options), loaded.config)
    shared = {spec.name: spec.actors for spec in placement.processes if len(spec.actors) > 1}
    assert shared == {
        "workers-0-0": ("conv-0-0", "conv-1-0"),
        "workers-0-1": ("conv-0-1", "conv-1-1"),
    }
    cluster.write_text(cluster.read_text() + "pipeline = 2\n")
    journal = train(cluster, service_time=lambda actor, label: 0.01).journal
    staleness = [fields["staleness"] for fields in journal.of("progress")]
    assert np.mean(staleness[5:]) == pytest.approx(1, abs=0.15)  # two groups: D.4.2

"""Random chains of runs: each begins with a checkpoint of the one before, with another preset, another
scheme and other workers. In live runs workers leave and come back, and checkpoints are asked for at
any moment. A chain ends with the bits of one process that was never interrupted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nets.files import checkpoint
from ops import Array
from roles import ROLES, Options, plan
from roles.messages import Done, Regroup
from runtime import Actor, Refused, Save
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Journal, simulate
from tests.helpers import fc_shards, recurrent_runs
from tests.helpers.support import train, with_actor

pytestmark = pytest.mark.usefixtures("one_thread")

REPRODUCIBLE = "reproducible = true\n"
ITERATIONS = 12
WHOLE = ("sync", "replicas", "firecaffe", "parameter-server", "mxnet-sync", "host-accumulate")
REGROUPS = ("sync", "omnivore", "local-fc-shards")
Configured = Callable[..., Path]


class Visitor(Actor):
    """An actor that asks for checkpoints and for other workers, at random times."""

    def __init__(self, *, seed: int, workers: list[int]) -> None:
        self._chance = random.Random(seed)
        self._workers = workers  # possible numbers; none if they cannot change

    async def run(self) -> None:
        for _ in range(4):
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            if not self._workers or self._chance.random() >= 0.6:
                await self.tell("coordinator", Save())
                continue
            wish = Regroup(workers=self._chance.choice(self._workers))
            try:
                await self.ask("coordinator", wish, Done)
            except Refused as refused:
                self.emit("refused", reason=str(refused))


def part(cluster: Path, chance: random.Random, workers: list[int]) -> Journal:
    """A run with a visitor. Pieces of work take random times."""
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    options = {"seed": chance.randrange(1000), "workers": workers}
    topology = with_actor(plan(loaded.config, loaded.options), "visitor", options)
    delays = random.Random(chance.random())
    return run_virtual(
        simulate(
            place(topology, loaded.config),
            {**ROLES, "visitor": Visitor},
            directory=cluster.parent,
            service_time=lambda actor, label: delays.uniform(0.0, 0.04),
        )
    )


def chained(
    folder: Path, seed: int, configured: Configured, presets: tuple[str, ...]
) -> dict[str, Array]:
    """The last checkpoint of a chain. Each part begins with one of the checkpoints of the part
    before, not always its last."""
    chance = random.Random(seed)
    begun = ""
    done = 0
    for number in range(5):
        last = number == 4 or done == ITERATIONS - 1
        preset = chance.choice(presets)
        workers = chance.choice([2, 4])
        strategy = REPRODUCIBLE
        if preset in ("local-fc-shards", "one-weird-trick"):
            schemes = ["a", "b", "c", *(f"c{team}" for team in range(2, workers))]
            strategy += f'scheme = "{chance.choice(schemes)}"\n'
        if preset == "local-fc-shards":
            strategy += f"servers = {chance.choice([1, 2, 4])}\n"
        live = preset in REGROUPS and chance.random() < 0.7
        strategy += "live = true\n" * live
        until = ITERATIONS if last else min(ITERATIONS - 1, done + chance.randint(1, 5))
        cluster = configured(
            folder / str(number), preset, workers=workers, iterations=until, strategy=strategy
        )
        text = cluster.read_text()
        if begun:
            text = text.replace("[train]\n", f'[train]\nresume = "{begun}"\n', 1)
            cluster.write_text(text)
        journal = part(cluster, chance, [1, 2, 4][: workers.bit_length()] if live else [])
        assert not journal.of("refused")
        files = [cluster.parent / fields["file"] for fields in journal.of("checkpoint")]
        file = files[-1] if last else chance.choice(files)
        arrays, facts = checkpoint.load(file)
        begun, done = str(file), int(facts["iteration"])
        if last:
            return arrays
    raise AssertionError("the last run of a chain returns")


def lenet(folder: Path, preset: str, **options: Any) -> Path:
    return fc_shards.configured(
        folder, preset, batch=24, net=fc_shards.lenet_with_dropout(), **options
    )


@pytest.mark.few("[0]", "[1]")
@pytest.mark.parametrize("seed", range(6))
def test_schemes_of_fc_batches_leave_the_bits_of_one_process_over_any_chain_of_runs(
    tmp_path: Path, seed: int
) -> None:
    alone = train(lenet(tmp_path / "alone", "single", iterations=ITERATIONS, strategy=REPRODUCIBLE))
    presets = ("local-fc-shards", "one-weird-trick", "local-fc-shards", "one-weird-trick", "sync")
    found = chained(tmp_path, seed, lenet, presets)
    recurrent_runs.same_arrays(found, alone.arrays)


@pytest.mark.few("[0]", "[1]")
@pytest.mark.parametrize("seed", range(6))
def test_recurrent_nets_leave_the_bits_and_states_of_one_process_over_any_chain_of_runs(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    streams = chance.choice([8, 9, 12, 16])
    steps = chance.choice([1, 2, 5])
    shape: dict[str, Any] = {
        "streams": streams,
        "steps": steps,
        "length": steps * chance.choice([1, 2, 3, 20]),
        "kind": chance.choice(["LSTM", "RNN"]),
        "shuffle": chance.random() < 0.5,
    }

    def letters(folder: Path, preset: str, **options: Any) -> Path:
        return recurrent_runs.configured(folder, preset, **shape, **options)

    alone = train(
        letters(tmp_path / "alone", "single", iterations=ITERATIONS, strategy=REPRODUCIBLE)
    )
    found = chained(tmp_path, seed, letters, (*WHOLE, "omnivore"))
    recurrent_runs.same_arrays(found, alone.arrays)

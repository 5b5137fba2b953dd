"""On the stand-in: whole runs on virtual time whose passes are plain, replayed or graphs, for
`tests.gpu.test_replayed_runs`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_cuda

from nets.files import checkpoint
from ops import Recording
from roles import ROLES, Options, plan
from roles.messages import Done, Regroup
from runtime import Actor
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from tests.gpu.small_runs import written
from tests.helpers.support import Simulated, train, with_actor
from tests.journeys.tuning.test_other_batches import AUTO, without_tuner

PASS = 0.1  # virtual seconds of a piece of work
PAUSE = 10.0  # virtual seconds between two changes: some passes of each size of batch
# from two groups of one worker each to one group of two, to one worker, and back with a larger batch
WISHES = [
    {"workers": 2, "groups": 1},
    {"workers": 1, "groups": 1},
    {"workers": 2, "groups": 2, "batch": 16},
]
replays = [0]  # the parts that were replayed


def _counted(self: Recording) -> None:
    replays[0] += 1
    _replay(self)


_replay = Recording.replay
Recording.replay = _counted  # type: ignore[method-assign]


class Regrouping(Actor):
    """An actor that asks the coordinator for one change after the other."""

    async def run(self) -> None:
        for wish in WISHES:
            await asyncio.sleep(PAUSE)  # on the virtual clock
            await self.ask("coordinator", Regroup(**wish), Done)


def run(folder: Path, preset: str, how: str) -> list[Simulated]:
    """Train on the device `cuda:0` for 60 iterations. `how`: "plain", "replay" or "graph"."""
    return [train(written(folder / how, preset, how, 60))]


def grouped(folder: Path, preset: str, how: str) -> list[Simulated]:
    """The same with two groups. The order of their messages is that of the virtual clock."""
    cluster = written(folder / how, preset, how, 60, groups=2)
    return [train(cluster, service_time=lambda actor, label: PASS)]


def resumed(folder: Path, preset: str, how: str) -> list[Simulated]:
    """Train for 30 iterations, then for 30 more from the checkpoint."""
    first = train(written(folder / f"{how} first", preset, how, 30))
    file = folder / f"{how} first" / first.journal.of("checkpoint")[-1]["file"]
    more = f'resume = "{file}"\n'
    return [first, train(written(folder / f"{how} second", preset, how, 60, more))]


def regrouped(folder: Path, preset: str, how: str) -> list[Simulated]:
    """Train with two groups, and change their number, the workers and the batch on the way."""
    cluster = written(folder / how, preset, how, 60, groups=2)
    loaded = load_with_program(cluster, ["train.strategy.live=true", *AUTO])
    assert isinstance(loaded.options, Options)
    alone = without_tuner(plan(loaded.config, loaded.options))
    more = with_actor(alone, "regrouping", {})
    journal = run_virtual(
        simulate(
            place(more, loaded.config),
            {**ROLES, "regrouping": Regrouping},
            directory=cluster.parent,
            service_time=lambda actor, label: PASS,
        )
    )
    assert [fields["groups"] for fields in journal.of("regrouped")] == [1, 1, 2]
    arrays, _ = checkpoint.load(cluster.parent / journal.of("checkpoint")[-1]["file"])
    return [Simulated(journal, arrays)]


def outcome(runs: list[Simulated]) -> dict[str, Any]:
    """The losses and tests of runs that follow one another, and the bits of the last model."""
    tests = [fields["accuracy"] for one in runs for fields in one.journal.of("test")]
    return {
        "losses": [loss for one in runs for loss in one.losses()],
        "tests": tests,
        **{name: array.tobytes() for name, array in runs[-1].arrays.items()},
    }


def counted(do: Callable[[], list[Simulated]]) -> tuple[dict[str, Any], Counter[str]]:
    """The outcome of runs, and the replays and launches of graphs in them."""
    before = replays[0], fake_cuda.counts()["graphs"]
    found = outcome(do())
    after = replays[0], fake_cuda.counts()["graphs"]
    return found, Counter(replays=after[0] - before[0], graphs=after[1] - before[1])

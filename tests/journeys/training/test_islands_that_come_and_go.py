"""Islands that die and come back while the others go on, on the virtual clock: each sample is
trained once, and the others do not pause."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from ops import Array
from roles import ROLES, Options, plan
from roles.checkpoints.saving import Checkpoints
from roles.islands.island import Island
from roles.islands.outer_server import Arrived, OuterServer
from roles.messages import TRAIN, Ticket
from runtime.cli.main import main
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.plan.program import made_of
from runtime.plan.topology import ActorSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork
from tests.journeys.training.test_islands import islands, slow_link, unequal

BATCH = 16
Script = Callable[[Simulation], Coroutine[Any, Any, None]]


class Merged:
    """The samples that the outer server has merged, and the number of iterations of each island."""

    def __init__(self) -> None:
        self.samples: Counter[int] = Counter()
        self.iterations: Counter[str] = Counter()
        self.first: dict[int, int] = {}  # iteration -> its first sample


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Merged]:
    """What reaches the outer model."""
    found = Merged()
    compute, merge = Island._compute, OuterServer._merge

    def computed(self: Island, ticket: Ticket) -> Any:
        if ticket.phase == TRAIN:
            found.first[ticket.number] = ticket.first
        return compute(self, ticket)

    async def noted(self: OuterServer, arrived: Mapping[str, Arrived]) -> Any:
        for name, (gain, _, _) in arrived.items():
            found.iterations[name] += gain.count
            for number in range(gain.number, gain.number + gain.count):
                first = found.first[number]
                found.samples.update(range(first, first + BATCH))
        return await merge(self, arrived)

    monkeypatch.setattr(Island, "_compute", computed)
    monkeypatch.setattr(OuterServer, "_merge", noted)
    yield found


def made(spec: ActorSpec) -> Any:
    return made_of(ROLES, spec)


def fast_link() -> InprocNetwork:
    """200 Mbit/s and 5 ms: the outer server answers all islands within 0.3 s."""
    return InprocNetwork(latency=0.005, bytes_per_second=2.5e7)


def train(
    cluster: Path, script: Script, network: InprocNetwork | None = None
) -> tuple[Simulation, dict[str, Array]]:
    """Train on the virtual clock while the script kills and starts processes. Returns the
    simulation and the arrays of the last checkpoint."""
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    placement = place(plan(loaded.config, loaded.options), loaded.config)

    async def main() -> Simulation:
        simulation = Simulation(
            placement,
            network=network or slow_link(),
            service_time=unequal,
            directory=cluster.parent,
        )
        scripted = asyncio.create_task(script(simulation))
        try:
            await simulation.run(made)
        finally:
            scripted.cancel()
            await asyncio.gather(scripted, return_exceptions=True)
        return simulation

    simulation = run_virtual(main())
    saved = simulation.journal.of("checkpoint")[-1]["file"]
    arrays, _ = checkpoint.load(cluster.parent / saved)
    return simulation, arrays


def drawn_deaths(seed: int, *, mean: float, names: list[str], most: int = 1000) -> Script:
    """Processes die at drawn times, `most` times in all, and come back after drawn times. One of
    them always lives."""

    async def script(simulation: Simulation) -> None:
        draw = random.Random(seed)
        away: set[str] = set()

        async def come_back(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            await simulation.restart(name, made)
            away.discard(name)

        async with asyncio.TaskGroup() as group:
            for _ in range(most):
                await asyncio.sleep(draw.expovariate(1 / mean))
                here = [name for name in names if name not in away]
                if len(here) > 1:
                    name = draw.choice(here)
                    away.add(name)
                    await simulation.kill(name, returns=True)
                    group.create_task(come_back(name, draw.uniform(0.01, 1.0)))

    return script


ISLANDS = ["island-0", "island-1", "island-2", "island-3"]


@pytest.mark.few("[0-float32]", "[1-int4]")
@pytest.mark.parametrize("form", ["float32", "int4"])
@pytest.mark.parametrize("seed", range(2))
def test_each_sample_is_trained_once_whatever_islands_die_and_come_back(
    tmp_path: Path, merged: Merged, seed: int, form: str
) -> None:
    cluster = islands(
        tmp_path, workers=4, iterations=120, form=form, test=True, snapshot=50, keys="period = 8\n"
    )
    script = drawn_deaths(seed, mean=0.3, names=ISLANDS)
    simulation, arrays = train(cluster, script)
    journal = simulation.journal
    assert merged.samples == Counter(range(120 * BATCH))
    assert journal.of("finished")
    assert len(journal.of("joined")) > 1
    assert sum(fields["given_back"] for fields in journal.of("left")) > 0
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_the_others_go_on_at_their_pace_without_an_island_that_does_not_come_back(
    tmp_path: Path, merged: Merged
) -> None:
    """The fastest island dies after a second. Its samples are trained by the others."""
    counts: list[Counter[str]] = []

    async def script(simulation: Simulation) -> None:
        for seconds in (1.0, 2.0):
            await asyncio.sleep(seconds)
            counts.append(merged.iterations.copy())
        await simulation.kill("island-3", returns=False)
        for seconds in (0.5, 2.0):
            await asyncio.sleep(seconds)
            counts.append(merged.iterations.copy())

    keys = "period = 4\nspeeds = [1, 1, 2, 4]\n"
    simulation, _ = train(
        islands(tmp_path, workers=4, iterations=220, form="int4", keys=keys), script
    )
    assert merged.samples == Counter(range(220 * BATCH))
    assert simulation.journal.of("finished")
    before, after = counts[1] - counts[0], counts[3] - counts[2]
    assert after["island-3"] == 0
    assert sum(before[name] for name in ISLANDS[:3]) >= 30  # 20 a second can be done
    assert sum(after.values()) >= 30


def test_an_island_that_dies_during_a_test_gives_its_batches_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: Merged
) -> None:
    victims: list[asyncio.Task[None]] = []
    compute = Island._compute
    running: list[Simulation] = []

    def computed(self: Island, ticket: Ticket) -> Any:
        if ticket.phase != TRAIN and self.name == "island-2" and not victims:
            dies = running[0].kill("island-2", returns=False)
            victims.append(asyncio.get_running_loop().create_task(dies))
        return compute(self, ticket)

    monkeypatch.setattr(Island, "_compute", computed)

    async def script(simulation: Simulation) -> None:
        running.append(simulation)

    simulation, _ = train(
        islands(tmp_path, workers=3, iterations=20, test=True, keys="period = 2\n"), script
    )
    assert victims
    assert simulation.journal.of("test")
    assert merged.samples == Counter(range(20 * BATCH))


def test_an_island_that_joins_has_the_outer_model_and_no_more_of_its_former_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: Merged
) -> None:
    joined: list[Mapping[str, Array]] = []
    outer: list[OuterServer] = []
    take, start = Island._resynchronised, OuterServer.on_start

    async def started(self: OuterServer) -> None:
        await start(self)
        outer.append(self)

    async def taken(self: Island) -> None:
        await take(self)
        joined.append(self._store.state())

    monkeypatch.setattr(OuterServer, "on_start", started)
    monkeypatch.setattr(Island, "_resynchronised", taken)
    right: list[Mapping[str, Array]] = []

    async def script(simulation: Simulation) -> None:
        await asyncio.sleep(1.0)
        for name in ISLANDS[1:]:
            await simulation.kill(name, returns=True)
        await simulation.kill("island-0", returns=True)
        await asyncio.sleep(1.0)  # nothing is under way
        right.append(outer[0]._store.state())
        await simulation.restart("island-0", made)

    train(islands(tmp_path, workers=4, iterations=40, form="int4", keys="period = 4\n"), script)
    assert merged.samples == Counter(range(40 * BATCH))
    for name, array in right[0].items():
        if "history" in name:
            assert not joined[0][name].any(), name
        else:
            assert joined[0][name].tobytes() == array.tobytes(), name


@pytest.fixture
def in_the_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Counter[int]]]:
    """The iterations that are in the outer model: the last element, also after the server has gone
    on from the copy that an island held."""
    at: dict[int, Counter[int]] = {}
    found: list[Counter[int]] = [Counter()]
    merge, take, start = OuterServer._merge, OuterServer._take_anchor, OuterServer.on_start

    async def merged(self: OuterServer, arrived: Mapping[str, Arrived]) -> Any:
        gains = {name: each.gain for name, each in arrived.items()}
        new = [gain for name, gain in gains.items() if gain.sequence > self._merged[name]]
        answers = await merge(self, arrived)
        numbers = (range(gain.number, gain.number + gain.count) for gain in new)
        found.append(found[-1] + Counter(number for each in numbers for number in each))
        at[self._version] = found[-1]
        return answers

    def taken(self: OuterServer, anchor: Any) -> None:
        take(self, anchor)
        found.append(at[anchor.version])

    async def started(self: OuterServer) -> None:
        await start(self)
        found.append(Counter())  # its own model, if no island has a newer one

    monkeypatch.setattr(OuterServer, "_merge", merged)
    monkeypatch.setattr(OuterServer, "_take_anchor", taken)
    monkeypatch.setattr(OuterServer, "on_start", started)
    yield found


@pytest.mark.few("[0-float32]", "[1-int4]")
@pytest.mark.parametrize("form", ["float32", "int4"])
@pytest.mark.parametrize("seed", range(4))
def test_the_outer_server_dies_and_each_iteration_is_once_in_the_model_of_its_next_life(
    tmp_path: Path, in_the_model: list[Counter[int]], seed: int, form: str
) -> None:
    async def script(simulation: Simulation) -> None:
        draw = random.Random(seed)
        for _ in range(3):
            await asyncio.sleep(draw.uniform(0.4, 0.8))
            await simulation.kill("outer", returns=True)
            await asyncio.sleep(draw.uniform(0.0, 0.3))
            await simulation.restart("outer", made)

    cluster = islands(
        tmp_path, workers=4, iterations=120, form=form, test=True, snapshot=50, keys="period = 8\n"
    )
    simulation, arrays = train(cluster, script, fast_link())
    assert in_the_model[-1] == Counter(range(120))
    assert len(simulation.journal.of("anchored")) > 1
    assert simulation.journal.of("finished")
    assert all(np.isfinite(array).all() for array in arrays.values())


@pytest.mark.few("[0]")
@pytest.mark.parametrize("seed", range(4))
def test_a_run_ends_well_whatever_outer_servers_and_islands_die_as_long_as_one_lives(
    tmp_path: Path, seed: int
) -> None:
    cluster = islands(tmp_path, workers=4, iterations=120, test=True, keys="period = 8\n")
    script = drawn_deaths(seed, mean=0.3, names=[*ISLANDS[1:], "outer"], most=8)
    simulation, _ = train(cluster, script, fast_link())
    assert simulation.journal.of("finished")


@pytest.mark.few("[0]")
@pytest.mark.parametrize("seed", range(4))
def test_a_run_never_hangs_whatever_islands_and_outer_servers_die(
    tmp_path: Path, seed: int
) -> None:
    cluster = islands(tmp_path, workers=4, iterations=120, test=True, keys="period = 8\n")
    script = drawn_deaths(seed, mean=0.3, names=[*ISLANDS, "outer"], most=8)
    try:
        simulation, _ = train(cluster, script, fast_link())
    except RuntimeError as error:
        assert str(error) == "no island that is left holds the outer model"
    else:
        assert simulation.journal.of("finished")


def when_the_last_model_is_copied(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[Simulation], Coroutine[Any, Any, None]]
) -> Script:
    """Let something happen once all actors have copied the last model, before it is fetched."""
    running: list[Simulation] = []
    gathered = Checkpoints._gathered

    async def noted(self: Checkpoints, of: Any, copied: Any) -> Any:
        if of.place[0] == 40 and running:
            await happens(running.pop())
        return await gathered(self, of, copied)

    async def script(simulation: Simulation) -> None:
        running.append(simulation)

    monkeypatch.setattr(Checkpoints, "_gathered", noted)
    return script


async def nothing(simulation: Simulation) -> None:
    """Let nothing happen."""


def parameters(arrays: Mapping[str, Array]) -> dict[str, bytes]:
    """The parameters in a checkpoint, without histories and without state next to the model."""
    return {name: array.tobytes() for name, array in arrays.items() if name.count(".") == 1}


def test_the_last_model_is_saved_though_the_outer_server_dies_with_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(simulation: Simulation) -> None:
        await simulation.kill("outer", returns=True)
        await simulation.restart("outer", made)

    def saved(folder: Path, script: Script) -> dict[str, Array]:
        folder.mkdir()
        cluster = islands(folder, workers=3, iterations=40, keys="period = 4\n")
        return train(cluster, script, fast_link())[1]

    right = saved(tmp_path / "right", nothing)
    found = saved(tmp_path / "found", when_the_last_model_is_copied(monkeypatch, dies))
    assert parameters(found) == parameters(right)


def test_a_checkpoint_whose_islands_died_has_no_momentum_and_says_so_when_it_is_resumed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def die(simulation: Simulation) -> None:
        for name in ISLANDS[:3]:
            await simulation.kill(name, returns=True)

    cluster = islands(tmp_path, workers=3, iterations=40, keys="period = 4\n")
    script = when_the_last_model_is_copied(monkeypatch, die)
    simulation, arrays = train(cluster, script, fast_link())
    assert simulation.journal.of("finished")
    zero = [name for name, array in arrays.items() if not array.any()]
    assert len(zero) == 8
    assert all(".history" in name for name in zero)
    assert "checkpoint-0000040.safetensors: 8 of its histories begin at 0" in caplog.text

    text = cluster.read_text().replace(
        "[train]\n", '[train]\nresume = "checkpoint-0000040.safetensors"\n'
    )
    cluster.write_text(text)
    solver = cluster.with_name("solver.prototxt")
    solver.write_text(solver.read_text().replace("max_iter: 40", "max_iter: 60"))
    assert main(["check", str(cluster)]) == 0
    assert "8 of its histories begin at 0: their islands had died" in capsys.readouterr().err

    simulation, _ = train(cluster, nothing, fast_link())
    assert simulation.journal.of("checkpoint")[-1]["iteration"] == 60


def test_an_outer_server_ends_the_run_if_no_island_has_its_model_any_more(
    tmp_path: Path,
) -> None:
    async def script(simulation: Simulation) -> None:
        await asyncio.sleep(1.0)
        for name in ("outer", *ISLANDS):
            await simulation.kill(name, returns=True)
        for name in (*ISLANDS, "outer"):
            await simulation.restart(name, made)

    with pytest.raises(RuntimeError, match="no island that is left holds the outer model"):
        train(islands(tmp_path, workers=4, iterations=200, keys="period = 4\n"), script)

"""Runs of islands: what they learn, the bits of synchronous runs, and the steps of unequal
machines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.definition.spec import ZOO
from nets.files import checkpoint
from ops import Array
from roles.islands.island import Island
from roles.islands.island_messages import Gain
from roles.islands.outer_server import OuterServer
from roles.messages import TRAIN, Ticket
from runtime.actors.router import Router
from runtime.errors import ProgramFailed
from runtime.messages.message import Message
from runtime.transport.inproc import InprocNetwork
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

FIXED = ("gamma: 0.0001 power: 0.75", "")
NORM = 'layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" }\n'


def islands(
    directory: Path,
    *,
    momentum: float = 0.9,
    snapshot: int = 0,
    form: str = "float32",
    keys: str = "",
    more: str = "",
    **options: Any,
) -> Path:
    """A configuration with these keys of the preset, this format and this momentum of the
    solver."""
    cluster = configure(directory, options.pop("preset", "islands"), more=more, **options)
    text = cluster.read_text()
    if keys:
        text += f"[train.strategy.options]\n{keys}\n"
    if form != "float32":
        text += f'[train.gradients]\nformat = "{form}"\n'
    cluster.write_text(text)
    solver = cluster.with_name("solver.prototxt")
    solver.write_text(
        solver.read_text()
        .replace("momentum: 0.9", f"momentum: {momentum}")
        .replace("snapshot: 0", f"snapshot: {snapshot}")
    )
    return cluster


ALL = 'quorum = "all"\nperiod = 2\nspeeds = [1, 2, 1]\n'


def same_bits(a: dict[str, Array], b: dict[str, Array]) -> bool:
    return a.keys() == b.keys() and all(
        a[name].tobytes() == array.tobytes() for name, array in b.items()
    )


def difference(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def test_one_island_learns_what_one_process_learns(tmp_path: Path) -> None:
    """The outer step adds the gain to the model it began with: the same, but for rounding."""
    alone = train(islands(tmp_path / "single", preset="single", iterations=8)).arrays
    keys = "period = 3\nouter_momentum = 0.0\n"
    for quorum in ("all", "grace"):
        found = train(
            islands(tmp_path / quorum, iterations=8, keys=f'{keys}quorum = "{quorum}"\n')
        ).arrays
        for name, right in alone.items():
            assert difference(found[name], right) <= 1e-5, (quorum, name)


def test_one_step_of_each_island_is_one_step_on_all_their_batches(tmp_path: Path) -> None:
    """Without momentum, the mean of models that each took one step is a step by the mean of their
    gradients: one process with a batch three times as large."""
    text = {"inv": "fixed"}
    runs = {}
    for name, options in {
        "single": {"preset": "single", "batch": 48, "iterations": 5},
        "islands": {"workers": 3, "batch": 16, "iterations": 15},
    }.items():
        keys = 'quorum = "all"\nperiod = 1\nouter_momentum = 0.0\n' if name == "islands" else ""
        cluster = islands(tmp_path / name, momentum=0.0, keys=keys, **options)
        solver = cluster.with_name("solver.prototxt")
        for old, new in text.items():
            solver.write_text(solver.read_text().replace(old, new))
        runs[name] = train(cluster).arrays
    for name, right in runs["single"].items():
        if "history" not in name:
            assert difference(runs["islands"][name], right) <= 1e-5, name


@pytest.mark.few("[float32]")
@pytest.mark.parametrize("form", ["float32", "int8", "int4"])
def test_with_all_islands_in_each_outer_step_a_run_repeats_itself_whatever_the_timing(
    tmp_path: Path, form: str
) -> None:
    delays = np.random.default_rng(0)
    options: dict[str, Any] = {"workers": 3, "iterations": 11, "keys": ALL, "form": form}
    first = train(islands(tmp_path / "a", **options))
    second = train(
        islands(tmp_path / "b", **options),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    assert same_bits(first.arrays, second.arrays)
    assert all(np.isfinite(array).all() for array in first.arrays.values())


@pytest.mark.few("[float32-8]", "[int4-14]")
@pytest.mark.parametrize(
    ("form", "iterations"), [("float32", 14), ("float32", 8), ("int8", 14), ("int4", 14)]
)
def test_a_run_of_all_islands_that_is_resumed_equals_an_unbroken_one_to_the_last_bit(
    tmp_path: Path, form: str, iterations: int
) -> None:
    """The last two of 8 iterations are a period in which only one island trains."""
    options: dict[str, Any] = {"workers": 3, "snapshot": 6, "keys": ALL, "form": form}
    whole = train(islands(tmp_path / "whole", iterations=iterations, **options))
    train(islands(tmp_path / "half", iterations=6, **options))
    resume = '[train]\nresume = "../half/checkpoint-0000006.safetensors"\n'
    cluster = islands(tmp_path / "rest", iterations=iterations, **options)
    cluster.write_text(cluster.read_text().replace("[train]\n", resume, 1))
    assert same_bits(train(cluster).arrays, whole.arrays)


@pytest.mark.slow
def test_real_processes_of_all_islands_have_the_bits_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # like the processes below: sums depend on their division among threads
    monkeypatch.setenv("CONVOY_THREADS", "1")
    options: dict[str, Any] = {"workers": 3, "iterations": 9, "keys": ALL, "form": "int8"}
    simulated = train(islands(tmp_path / "sim", test=True, **options))
    cluster = islands(tmp_path / "up", test=True, more="[[machine]]\nthreads = 1\n", **options)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    assert same_bits(arrays, simulated.arrays)


def test_real_processes_train_with_a_grace_window(tmp_path: Path) -> None:
    cluster = islands(tmp_path, workers=2, iterations=12, form="int4", keys="period = 2\n")
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout
    assert events(run_directory(cluster), "finished")


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> Iterator[defaultdict[str, list[Gain]]]:
    """Island -> the gains that it sent."""
    found: defaultdict[str, list[Gain]] = defaultdict(list)
    send = Router._send

    async def noted(self: Router, envelope: Any, *more: Any, **named: Any) -> Any:
        message: Message = envelope.message
        if isinstance(message, Gain):
            found[envelope.sender].append(message)
        return await send(self, envelope, *more, **named)

    monkeypatch.setattr(Router, "_send", noted)
    yield found


SPEEDS = {"island-0": 1, "island-1": 1, "island-2": 2, "island-3": 4}


def unequal(actor: str, label: str) -> float:
    """Seconds of a piece of work of machines whose speeds are 1 : 1 : 2 : 4."""
    return 0.2 / SPEEDS[actor] if label == "train" else 0.0


def slow_link() -> InprocNetwork:
    """20 Mbit/s and 20 ms."""
    return InprocNetwork(latency=0.02, bytes_per_second=2.5e6)


def on_unequal_machines(directory: Path, **options: Any) -> Simulated:
    """A run of four islands of unequal speed on slow links."""
    cluster = islands(directory, workers=4, **options)
    return train(cluster, service_time=unequal, network=slow_link())


def test_steps_follow_the_speed_of_each_machine_and_all_send_as_often(
    tmp_path: Path, gains: defaultdict[str, list[Gain]]
) -> None:
    on_unequal_machines(tmp_path, iterations=160, form="int4", keys="period = 8\n")
    usual = {
        name: Counter(gain.count for gain in sent).most_common(1)[0][0]
        for name, sent in gains.items()
    }
    assert usual == {"island-0": 2, "island-1": 2, "island-2": 4, "island-3": 8}
    counts = [len(sent) for sent in gains.values()]
    assert max(counts) - min(counts) <= 3


def test_slow_links_do_not_slow_islands_down_as_long_as_they_learn_meanwhile(
    tmp_path: Path,
) -> None:
    """160 iterations at 40 per second take 4 s. An exchange of int4 takes 0.1 s each way."""
    times = {}
    for name, keys in {"on": "", "off": "overlap = false\n"}.items():
        run = on_unequal_machines(
            tmp_path / name, iterations=160, form="int4", keys=f"period = 16\n{keys}"
        )
        times[name] = run.journal.of("finished")[-1]["seconds"]
    assert times["on"] < 0.8 * times["off"]
    assert times["on"] < 1.4 * 160 / 40


@pytest.mark.parametrize("quorum", ["all", "grace"])
def test_every_iteration_is_in_one_gain_and_every_sample_is_trained_once(
    tmp_path: Path, gains: defaultdict[str, list[Gain]], quorum: str
) -> None:
    keys = f'quorum = "{quorum}"\nperiod = 4\nspeeds = [1, 1, 2, 4]\n'
    on_unequal_machines(tmp_path, iterations=50, keys=keys)
    numbers = [
        number
        for sent in gains.values()
        for gain in sent
        for number in range(gain.number, gain.number + gain.count)
    ]
    assert sorted(numbers) == list(range(50))
    assert sum(gain.rows for sent in gains.values() for gain in sent) == 50 * 16


@pytest.mark.parametrize("form", ["float32", "int4"])
def test_tests_and_checkpoints_have_the_outer_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    tested: dict[str, dict[str, Array]] = {}
    outer: list[OuterServer] = []
    compute, start = Island._compute, OuterServer.on_start

    def noted(self: Island, ticket: Ticket) -> Any:
        if ticket.phase != TRAIN:
            tested[self.name] = self._store.state()
        return compute(self, ticket)

    async def started(self: OuterServer) -> None:
        await start(self)
        outer.append(self)

    monkeypatch.setattr(Island, "_compute", noted)
    monkeypatch.setattr(OuterServer, "on_start", started)
    run = on_unequal_machines(tmp_path, iterations=40, form=form, test=True, keys="period = 4\n")
    assert len(tested) > 1
    right = outer[0]._store.state()
    for found in (*tested.values(), run.arrays):
        for name, array in right.items():
            if "history" not in name:
                assert found[name].tobytes() == array.tobytes(), name


def test_statistics_of_batch_normalisation_are_merged(tmp_path: Path) -> None:
    text = (ZOO / "lenet.prototxt").read_text()
    found = {}
    for name, options in {
        "single": {"preset": "single"},
        "islands": {"workers": 3, "keys": 'quorum = "all"\nperiod = 2\nouter_momentum = 0.0\n'},
    }.items():
        cluster = islands(tmp_path / name, iterations=24, **options)
        marker = 'layer {\n  name: "pool1"'
        (cluster.parent / "net.prototxt").write_text(text.replace(marker, NORM + marker, 1))
        solver = cluster.with_name("solver.prototxt")
        solver.write_text(solver.read_text().replace("lenet.prototxt", "net.prototxt"))
        found[name] = train(cluster).arrays
    mean, variance, weight = (found["islands"][f"bn.{at}"] for at in range(3))
    right = [found["single"][f"bn.{at}"] for at in range(3)]
    np.testing.assert_allclose(mean / weight, right[0] / right[2], rtol=0.2, atol=0.1)
    np.testing.assert_allclose(variance / weight, right[1] / right[2], rtol=0.3, atol=0.1)


def test_the_learning_rate_follows_the_iterations_of_all_islands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    compute = Island._compute

    def noted(self: Island, ticket: Ticket) -> Any:
        if ticket.phase == TRAIN:
            seen.extend((ticket.number, version) for version in self._store.versions.values())
        return compute(self, ticket)

    monkeypatch.setattr(Island, "_compute", noted)
    on_unequal_machines(tmp_path, iterations=30, keys="period = 2\n")
    assert {number for number, _ in seen} == set(range(30))
    assert all(number == version for number, version in seen)


def test_islands_that_diverge_are_not_told_to_lower_the_momentum_for_their_number(
    tmp_path: Path,
) -> None:
    """Each has its own model, so their number does not act like momentum."""
    cluster = islands(tmp_path, workers=4, iterations=40, batch=8)
    cluster.write_text(cluster.read_text().replace("[train]\n", "[train]\nbase_lr = 1e9\n"))
    with (
        np.errstate(all="ignore"),
        pytest.raises(ProgramFailed, match=r"base_lr or train\.strategy\.options"),
    ):
        train(cluster)

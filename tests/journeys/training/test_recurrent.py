"""Nets with recurrent layers in every preset: a batch is cut by streams, and each stream's state
goes on where the stream goes on."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nets.files import checkpoint
from nets.files.weights import read_weights
from roles.learning.stream_states import StreamStates
from runtime.errors import ConfigError
from tests.helpers.recurrent_runs import SEQUENCE, STREAMS, configured, same_arrays
from tests.helpers.support import Simulated, train
from tests.journeys.tuning.test_probes import asks, tried
from tests.journeys.tuning.test_regroup import meddled

pytestmark = pytest.mark.usefixtures("one_thread")

REPRODUCIBLE = "reproducible = true\n"
TEST = '{ format = "text", source = "input.txt", streams = 8, length = 16 }'
SYNCHRONOUS = ["sync", "omnivore", "replicas", "firecaffe", "parameter-server"]


def same(found: Simulated, wanted: Simulated) -> None:
    assert found.losses() == wanted.losses()
    same_arrays(found.arrays, wanted.arrays)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The run of one worker."""
    return train(configured(tmp_path_factory.mktemp("single"), "single", strategy=REPRODUCIBLE))


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("preset", SYNCHRONOUS)
def test_a_reproducible_run_leaves_the_bits_and_the_states_of_one_worker(
    tmp_path: Path, alone: Simulated, preset: str, workers: int
) -> None:
    found = train(configured(tmp_path, preset, workers=workers, strategy=REPRODUCIBLE))
    assert any(".beside.streams." in name for name in found.arrays)
    same(found, alone)


def test_the_state_of_a_stream_counts_in_the_next_pass(tmp_path: Path, alone: Simulated) -> None:
    """Sequences of one batch have the same text, and no state is handed on."""
    short = configured(tmp_path, "single", strategy=REPRODUCIBLE, length=4, shuffle=False)
    long = configured(tmp_path / "long", "single", strategy=REPRODUCIBLE, shuffle=False)
    found, wanted = train(short).losses(), train(long).losses()
    assert found[0] == wanted[0]
    assert found[1] != wanted[1]


@pytest.mark.few("[0]", "[1]")
@pytest.mark.parametrize("seed", range(20))
def test_random_shapes_of_streams_and_sequences_equal_one_worker_over_a_resume(
    tmp_path: Path, seed: int
) -> None:
    """The second half has another preset and other workers. Half of the shapes have one step."""
    chance = random.Random(seed)
    streams = chance.choice([2, 3, 5, 7, 12])
    steps = 1 if seed % 2 else chance.choice([2, 4, 5])
    shape: dict[str, Any] = {
        "streams": streams,
        "steps": steps,
        "length": steps * chance.choice([1, 2, 3, 20]),
        "kind": chance.choice(["LSTM", "RNN"]),
        "shuffle": chance.random() < 0.5,
    }

    def some(name: str, **more: Any) -> Path:
        preset = chance.choice([*SYNCHRONOUS, "mxnet-sync", "host-accumulate"])
        workers = chance.randint(1, streams)
        return configured(tmp_path / name, preset, workers=workers, **shape, **more)

    expected = train(configured(tmp_path / "alone", "single", iterations=6, **shape)).arrays
    half = some("half", iterations=3)
    file = train(half).journal.of("checkpoint")[-1]["file"]
    rest = some("rest", iterations=6)
    rest.write_text(rest.read_text().replace("[train]\n", f'[train]\nresume = "../half/{file}"\n'))
    found = train(rest).arrays
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert abs(found[name] - array).max() <= 2e-4 * abs(array).max(), name


@pytest.mark.parametrize(("preset", "workers"), [("sync", 2), ("replicas", 4), ("single", 1)])
def test_a_resumed_run_goes_on_from_the_states_with_any_preset_and_workers(
    tmp_path: Path, alone: Simulated, preset: str, workers: int
) -> None:
    first = configured(tmp_path / "first", "sync", workers=4, iterations=6, strategy=REPRODUCIBLE)
    file = train(first).journal.of("checkpoint")[-1]["file"]
    rest = configured(tmp_path / "rest", preset, workers=workers, strategy=REPRODUCIBLE)
    rest.write_text(rest.read_text().replace("[train]\n", f'[train]\nresume = "../first/{file}"\n'))
    found = train(rest)
    assert found.losses() == alone.losses()[6:]
    same_arrays(found.arrays, alone.arrays)


@pytest.mark.parametrize("preset", ["sync", "replicas", "sparknet"])
def test_a_net_of_plain_recurrent_units_learns_and_is_tested(tmp_path: Path, preset: str) -> None:
    cluster = configured(tmp_path, preset, workers=2, iterations=4, kind="RNN")
    text = cluster.read_text().replace("[train.data]\n", f"[train.data]\ntest = {TEST}\n")
    cluster.write_text(text)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text() + "test_interval: 2\n")
    found = train(cluster)
    assert [fields["iteration"] for fields in found.journal.of("test")] == [0, 2, 4]


def test_states_move_with_their_streams_when_the_groups_change(tmp_path: Path) -> None:
    live = REPRODUCIBLE + "live = true\n"
    alone = train(configured(tmp_path / "alone", "single", iterations=40, strategy=REPRODUCIBLE))
    cluster = configured(tmp_path / "live", "sync", workers=4, iterations=40, strategy=live)
    journal = meddled(cluster, [{"workers": 2}, {"workers": 4}, {"workers": 1}], [])
    assert len(journal.of("granted")) == 3
    file = cluster.parent / journal.of("checkpoint")[-1]["file"]
    arrays, _ = checkpoint.load(file)
    same_arrays(arrays, alone.arrays)


def test_a_probe_with_other_groups_leaves_the_states_as_they_were(tmp_path: Path) -> None:
    live = REPRODUCIBLE + "live = true\n"
    alone = train(configured(tmp_path / "alone", "single", iterations=20, strategy=REPRODUCIBLE))
    cluster = configured(tmp_path / "live", "sync", workers=4, iterations=20, strategy=live)
    found = tried(cluster, asks({"iterations": 3}, {"iterations": 5, "groups": 2}))
    assert len(found.journal.of("probe")) == 2
    same_arrays(found.arrays, alone.arrays)


def test_a_group_computes_whole_sequences_and_hands_on_their_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 2 groups, every batch of a sequence follows the batch before in the same worker."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    original = StreamStates.begin

    def note(states: StreamStates, first: int, *more: Any) -> None:
        places[id(states)].append(first // STREAMS)
        original(states, first, *more)

    monkeypatch.setattr(StreamStates, "begin", note)
    train(configured(tmp_path, "omnivore", workers=4, iterations=16, strategy="groups = 2\n"))
    assert len(places) == 4
    batches = sorted(batch for of in places.values() for batch in of)
    assert batches == sorted([*range(16), *range(16)])  # each by both workers of one group
    for of in places.values():
        for before, batch in pairwise(of):
            assert batch % SEQUENCE == 0 or batch == before + 1


REFUSED = [
    ("one-weird-trick", "", "", "cannot be divided among shards"),
    ("local-fc-shards", "servers = 2\n", "", "cannot be divided among shards"),
    ("sync", "", "batch = 4\n", "is its 8 streams"),
    ("sync", "", "batch = 'auto'\n", "is its 8 streams"),
]


@pytest.mark.parametrize(("preset", "strategy", "job", "expected"), REFUSED)
def test_what_does_not_suit_a_recurrent_net_is_refused_in_words(
    tmp_path: Path, preset: str, strategy: str, job: str, expected: str
) -> None:
    cluster = configured(tmp_path, preset, workers=2, strategy=strategy)
    cluster.write_text(cluster.read_text().replace("[train]\n", f"[train]\n{job}"))
    with pytest.raises(ConfigError, match=expected):
        train(cluster)


def test_several_passes_for_an_update_are_refused_in_words(tmp_path: Path) -> None:
    cluster = configured(tmp_path, "single")
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text() + "iter_size: 2\n")
    with pytest.raises(ConfigError, match="found iter_size 2"):
        train(cluster)


def test_a_checkpoint_with_states_gives_weights_as_any_other(tmp_path: Path) -> None:
    """A user tests it, and another run starts from its weights."""
    first = configured(tmp_path / "first", "sync", workers=2, iterations=6, strategy=REPRODUCIBLE)
    found = train(first)
    file = first.parent / found.journal.of("checkpoint")[-1]["file"]
    assert set(read_weights(file)) == {"embed", "lstm", "next"}
    rest = configured(tmp_path / "rest", "single", iterations=1)
    rest.write_text(rest.read_text().replace("[train]\n", f'[train]\nweights = "{file}"\n'))
    assert train(rest).losses()[0] < found.losses()[0]

"""Presets whose workers compute the whole net: their results, their traffic, the place of each
layer, and their staleness."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nets.files import checkpoint
from roles import Options, plan
from roles.messages import LayerGradient, LayerModel, PullLayer
from runtime.actors.actor import Actor
from runtime.config.file import load_with_program
from runtime.messages.message import Envelope, Message
from runtime.plan.topology import Topology
from runtime.transport.inproc import InprocNetwork
from tests.helpers.support import Simulated, configure, events, run_directory, run_up, train

# the number of parameters of each layer
LENET = {"conv1": 520, "conv2": 25_050, "ip1": 400_500, "ip2": 5_010}

Log = list[tuple[str, str, Any]]


def laid_out(
    directory: Path,
    preset: str,
    *,
    servers: int | None = None,
    train_lines: str = "",
    more: str = "",
    **options: Any,
) -> Path:
    """Like `configure`, with a number of servers and further lines of [train]."""
    cluster = configure(directory, preset, more=more, **options)
    text = cluster.read_text().replace("[train]\n", f"[train]\n{train_lines}", 1)
    cluster.write_text(text + (f"servers = {servers}\n" if servers else ""))
    return cluster


def planned(cluster: Path) -> Topology:
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    return plan(loaded.config, loaded.options)


def assert_equal(found: Simulated, expected: Simulated, largest: float = 1e-5) -> None:
    """Check that every array differs by at most `largest` times the expected array's largest
    number."""
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        difference = float(np.abs(found.arrays[name] - array).max() / np.abs(array).max())
        assert difference <= largest, name


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Log:
    """A list of (sender, receiver, message) for every gradient and pull."""
    log: Log = []

    def watched(say: Callable[..., Any]) -> Callable[..., Any]:
        def noted(actor: Actor, to: str, message: Message, *more: Any, **named: Any) -> Any:
            if isinstance(message, LayerGradient | PullLayer):
                log.append((actor.name, to, message))
            return say(actor, to, message, *more, **named)

        return noted

    for verb in ("tell", "ask"):
        monkeypatch.setattr(Actor, verb, watched(getattr(Actor, verb)))
    return log


# -- the same numbers as one worker


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """One worker after 10 iterations."""
    return train(configure(tmp_path_factory.mktemp("single"), "single"))


@pytest.mark.few("[mxnet-sync-3-2]", "[singa-2-3]")
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize(
    ("preset", "servers"),
    [("mxnet-sync", None), ("mxnet-sync", 3), ("parameter-server", None), ("singa", 2)],
)
def test_one_group_equals_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, single: Simulated, preset: str, servers: int | None, workers: int
) -> None:
    distributed = train(laid_out(tmp_path, preset, servers=servers, workers=workers))
    assert_equal(distributed, single)
    # the loss of the whole batch, not of a part
    assert distributed.losses() == pytest.approx(single.losses(), rel=1e-4)


@pytest.mark.few("[mxnet-async]")
@pytest.mark.parametrize("preset", ["mxnet-sync", "mxnet-async", "singa", "distbelief"])
def test_one_worker_with_two_servers_has_the_bits_of_single(
    tmp_path: Path, single: Simulated, preset: str
) -> None:
    assert_equal(train(laid_out(tmp_path, preset, servers=2)), single, largest=0.0)


# Two iterations only: in the fourth, the pooling takes another maximum, whatever the preset, and
# the difference is more than rounding
CIFAR = """
[train]
net = "cifar10_full"
solver = "cifar10_full_solver"
base_lr = 0.01
batch = 12
max_iter = 2
precision = "exact"
[train.data]
train = {{ format = "cifar10", files = ["{file}"] }}
[train.strategy]
preset = "{preset}"
workers = {workers}
{more}"""


@pytest.mark.few("[mxnet-sync-2")
@pytest.mark.parametrize(
    ("preset", "workers", "more"),
    [("mxnet-sync", 2, "servers = 3\n"), ("mxnet-sync", 3, ""), ("parameter-server", 4, "")],
)
def test_a_net_with_local_response_normalisation_equals_single_on_photographs(
    tmp_path: Path, shared_data: Path, preset: str, workers: int, more: str
) -> None:
    runs = []
    for name, count, lines in (("single", 1, ""), (preset, workers, more)):
        directory = tmp_path / name
        directory.mkdir()
        file = shared_data / "cifar10" / "test_batch_1000.bin.gz"
        cluster = directory / "cluster.toml"
        cluster.write_text(CIFAR.format(file=file, preset=name, workers=count, more=lines))
        runs.append(train(cluster))
    assert_equal(runs[1], runs[0])


@pytest.mark.few("[3]")
@pytest.mark.parametrize("servers", [1, 3])
def test_a_synchronous_run_repeats_itself_to_the_last_bit_whatever_the_timing(
    tmp_path: Path, servers: int
) -> None:
    delays = np.random.default_rng(0)
    first = train(laid_out(tmp_path / "a", "mxnet-sync", servers=servers, workers=3, iterations=5))
    second = train(
        laid_out(tmp_path / "b", "mxnet-sync", servers=servers, workers=3, iterations=5),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    assert all(
        second.arrays[name].tobytes() == array.tobytes() for name, array in first.arrays.items()
    )


# -- settings of a solver and of a file of parameters


def test_checkpoints_of_sharded_servers_and_of_one_worker_stand_in_for_each_other(
    tmp_path: Path,
) -> None:
    whole = train(configure(tmp_path / "whole", "single", iterations=8))
    train(configure(tmp_path / "single", "single", iterations=5))
    train(laid_out(tmp_path / "mxnet-sync", "mxnet-sync", servers=3, workers=2, iterations=5))
    for first, then in (("single", "mxnet-sync"), ("mxnet-sync", "single")):
        resume = f'resume = "../{first}/checkpoint-0000005.safetensors"\n'
        servers, workers = (3, 2) if then == "mxnet-sync" else (None, 1)
        cluster = laid_out(
            tmp_path / f"then-{then}",
            then,
            servers=servers,
            workers=workers,
            iterations=8,
            train_lines=resume,
        )
        rest = train(cluster)
        assert rest.losses() == pytest.approx(whole.losses()[5:], rel=1e-4)
        assert_equal(rest, whole)


def test_iter_size_and_momentum_give_the_numbers_of_single(tmp_path: Path) -> None:
    runs = []
    for preset, workers in (("single", 1), ("mxnet-sync", 3)):
        more = {"iterations": 3, "train_lines": "momentum = 0.5\n"}
        cluster = laid_out(tmp_path / preset, preset, workers=workers, **more)
        solver = cluster.with_name("solver.prototxt")
        solver.write_text(solver.read_text() + "iter_size: 3")
        runs.append(train(cluster))
    assert_equal(runs[1], runs[0])


def test_first_weights_of_some_layers_reach_the_servers_that_hold_them(tmp_path: Path) -> None:
    start = train(configure(tmp_path / "start", "single", iterations=1, seed=5)).arrays
    file = tmp_path / "some.safetensors"
    checkpoint.save(
        file,
        {name: start[name] for name in ("conv1.0", "conv1.1", "ip1.0", "ip1.1")},
        {"net": "LeNet"},
    )
    runs = []
    for preset, servers in (("single", None), ("mxnet-sync", 4)):
        lines = 'weights = "../some.safetensors"\n'
        runs.append(
            train(
                laid_out(
                    tmp_path / preset, preset, servers=servers, iterations=2, train_lines=lines
                )
            )
        )
    assert_equal(runs[1], runs[0])
    assert runs[0].losses() != train(configure(tmp_path / "fresh", "single", iterations=2)).losses()


@pytest.mark.slow
def test_weights_for_no_layer_of_the_net_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(
        tmp_path / "other.safetensors", {"fc.0": np.zeros((2, 2), np.float32)}, {"net": "other"}
    )
    cluster = laid_out(tmp_path, "mxnet-sync", train_lines='weights = "other.safetensors"\n')
    done = run_up(cluster)
    assert done.returncode == 2
    assert "train.weights: other.safetensors: no layer of the net is in the file" in done.stderr
    assert not (tmp_path / "runs").exists()


# -- the place of layers, and traffic


def test_the_layers_are_spread_over_the_servers_as_evenly_as_whole_layers_allow(
    tmp_path: Path,
) -> None:
    topology = planned(laid_out(tmp_path, "mxnet-async", servers=3, workers=2))
    held = {
        actor.name: actor.options.layers for actor in topology.actors if actor.role == "conv_model"
    }
    assert held == {"model-0": ("ip1",), "model-1": ("conv2",), "model-2": ("conv1", "ip2")}


@pytest.mark.few("[mxnet-sync]")
@pytest.mark.parametrize("preset", ["mxnet-sync", "mxnet-async", "singa", "distbelief"])
def test_every_layer_is_pulled_from_and_pushed_to_the_server_that_holds_it(
    tmp_path: Path, told: Log, preset: str
) -> None:
    cluster = laid_out(tmp_path, preset, servers=3, workers=4, groups=2, iterations=4)
    train(cluster)
    servers = [actor for actor in planned(cluster).actors if actor.role == "conv_model"]
    home = {layer: actor.name for actor in servers for layer in actor.options.layers}
    pulls = Counter((to, said.layer) for _, to, said in told if isinstance(said, PullLayer))
    pushes = {
        (to, said.layer)
        for _, to, said in told
        if isinstance(said, LayerGradient) and to in home.values()
    }
    assert set(pulls) == {(home[layer], layer) for layer in LENET} == pushes
    members = {"mxnet-sync": 4, "singa": 2}.get(preset, 1)
    assert set(pulls.values()) == {4 * members}


def bytes_to(told: Log, receiver: str) -> dict[str, int]:
    """The bytes of gradients sent to the receiver, by layer."""
    found: defaultdict[str, int] = defaultdict(int)
    for _, to, said in told:
        if isinstance(said, LayerGradient) and to == receiver:
            found[said.layer] += sum(blob.nbytes for blob in said.blobs)
    return dict(found)


def test_a_parameter_server_receives_the_gradients_of_all_layers_from_each_of_p_workers(
    tmp_path: Path, told: Log
) -> None:
    train(configure(tmp_path, "parameter-server", workers=3, iterations=2))
    assert bytes_to(told, "model-0") == {layer: 4 * 3 * 2 * size for layer, size in LENET.items()}
    assert {to for _, to, _ in told} == {"model-0"}  # no reducer in between


def test_the_gradients_of_fc_layers_travel_where_the_fc_phase_is_not_merged_and_only_there(
    tmp_path: Path, told: Log
) -> None:
    train(configure(tmp_path / "mxnet", "mxnet-async", workers=2, iterations=4))
    assert bytes_to(told, "model-0") == {layer: 4 * 4 * size for layer, size in LENET.items()}
    told.clear()
    train(configure(tmp_path / "adam", "adam", workers=2, groups=2, iterations=4))
    assert bytes_to(told, "conv_model") == {
        layer: 4 * 4 * LENET[layer] for layer in ("conv1", "conv2")
    }


def test_each_group_of_singa_has_a_tree_to_each_server(tmp_path: Path, told: Log) -> None:
    cluster = laid_out(tmp_path, "singa", servers=2, workers=6, groups=2, fan_in=2, iterations=2)
    train(cluster)
    ways = {(sender, to) for sender, to, said in told if isinstance(said, LayerGradient)}
    for group in range(2):
        for server in range(2):
            low = f"reducer-{server}-{2 * group}"
            high = f"reducer-{server}-{2 * group + 1}"
            leaves = [f"conv-{group}-{rank}" for rank in range(3)]
            assert {(leaves[0], low), (leaves[1], low), (low, high), (leaves[2], high)} < ways
            assert (high, f"model-{server}") in ways
    assert len(ways) == 2 * 2 * 5


@pytest.mark.slow
def test_gradients_have_the_formats_of_their_links_to_several_servers(
    tmp_path: Path, told: Log
) -> None:
    links = '"conv-* -> reducer-*" = "one-bit"\n"reducer-* -> model-1" = "float16"\n'
    more = f'[train.gradients]\nformat = "bfloat16"\n[train.gradients.links]\n{links}'
    cluster = laid_out(tmp_path, "singa", servers=2, workers=4, groups=2, iterations=60, more=more)
    run = train(cluster)
    formats = {
        (sender[:4], to if to.startswith("model") else to[:4]): said.formats
        for sender, to, said in told
        if isinstance(said, LayerGradient)
    }
    assert formats == {
        ("conv", "redu"): ("one-bit",) * 2,
        ("redu", "model-0"): ("bfloat16",) * 2,
        ("redu", "model-1"): ("float16",) * 2,
    }
    assert np.mean(run.losses()[-5:]) < run.losses()[0] / 2


def test_devices_are_given_to_workers_and_model_servers_by_pattern(tmp_path: Path) -> None:
    lines = 'devices = { "conv-0-*" = "cuda:0", "model-1" = "cuda:1" }\n'
    topology = planned(laid_out(tmp_path, "mxnet-async", servers=2, workers=2, train_lines=lines))
    devices = {actor.name: actor.options.job.device for actor in topology.actors}
    assert devices == {
        "coordinator": "cpu",
        "model-0": "cpu",
        "model-1": "cuda:1",
        "conv-0-0": "cuda:0",
        "conv-1-0": "cpu",
    }


@pytest.mark.parametrize("preset", ["adam", "omnivore"])
def test_adams_workers_read_the_live_conv_model_not_a_version_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    said: list[Any] = []
    reply = Actor.reply

    async def noted(actor: Actor, envelope: Envelope, message: Message) -> None:
        if isinstance(message, LayerModel) and message.layer == "conv2":
            said.append(message.blobs[0])
        await reply(actor, envelope, message)

    monkeypatch.setattr(Actor, "reply", noted)
    train(configure(tmp_path, preset, workers=2, groups=2, iterations=6))
    first, *others = said
    assert len(others) == 5
    assert all(np.shares_memory(first, other) for other in others) is (preset == "adam")


# -- staleness


def convolution_takes_time(draw: np.random.Generator) -> Callable[[str, str], float]:
    """Exponential service times of the layers, as theory assumes. All other work is fast."""
    return lambda actor, label: (
        float(draw.exponential(0.01)) if label.startswith(("forward", "backward")) else 1e-4
    )


@pytest.mark.few("[singa-4-2-2]", "[mxnet-async-4-4-1]")
@pytest.mark.parametrize(
    ("preset", "workers", "groups", "servers"),
    [
        ("mxnet-async", 4, 4, 1),
        ("mxnet-async", 4, 4, 4),
        ("mxnet-async", 6, 6, 2),
        ("singa", 4, 2, 2),
        ("singa", 6, 3, 1),
        ("distbelief", 4, 4, None),
        ("adam", 4, 4, None),
        ("adam", 4, 2, None),
        ("mxnet-sync", 3, 1, 3),
    ],
)
def test_staleness_is_g_minus_1_on_average(
    tmp_path: Path, preset: str, workers: int, groups: int, servers: int | None
) -> None:
    options = {"workers": workers, "groups": groups, "iterations": 20 * groups, "batch": 8}
    lines = "momentum = 0.0\n"
    run = train(
        laid_out(tmp_path, preset, servers=servers, train_lines=lines, **options),
        service_time=convolution_takes_time(np.random.default_rng(7)),
        network=InprocNetwork(latency=1e-4),
    )
    staleness = [fields["staleness"] for fields in run.journal.of("progress")[groups:]]
    assert np.mean(staleness) == pytest.approx(groups - 1, abs=0.0 if groups == 1 else 0.3)


# -- in real processes


@pytest.mark.slow
def test_servers_in_real_processes_have_the_bits_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # like the processes below: sums depend on their division among threads
    monkeypatch.setenv("CONVOY_THREADS", "1")
    more = "[[machine]]\nthreads = 1\n"
    options = {"servers": 2, "workers": 2, "iterations": 5, "more": more}
    simulated = train(laid_out(tmp_path / "sim", "mxnet-sync", **options))
    cluster = laid_out(tmp_path / "up", "mxnet-sync", **options)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    logs = {path.stem for path in (directory / "logs").iterdir()}
    assert logs == {"coordinator", "model-0", "model-1", "conv-0-0", "conv-0-1"}
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    assert arrays.keys() == simulated.arrays.keys()
    assert all(
        arrays[name].tobytes() == array.tobytes() for name, array in simulated.arrays.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "workers", "groups"), [("distbelief", 3, 3), ("singa", 4, 2), ("adam", 3, 3)]
)
def test_asynchronous_groups_in_real_processes_learn_with_staleness_g_minus_1(
    tmp_path: Path, preset: str, workers: int, groups: int
) -> None:
    cluster = configure(tmp_path, preset, workers=workers, groups=groups, iterations=160, test=True)
    done = run_up(cluster, "--set", "train.momentum=0.5")
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    staleness = [entry["staleness"] for entry in events(directory, "progress")[8:]]
    assert np.mean(staleness) == pytest.approx(groups - 1, abs=0.5)
    assert events(directory, "test")[-1]["accuracy"] > 0.85

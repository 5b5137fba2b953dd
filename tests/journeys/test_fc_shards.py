"""An FC phase on several servers, of their own or on the workers themselves, trains as one process with the net."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from nets import Net, checkpoint, load_net, load_solver
from nets.spec import ZOO
from roles import Options, plan
from roles.fc_batches import fc_batches
from roles.job import Job
from roles.messages import ActivationSlice, Columns, FcTurn
from roles.parameter_store import ParameterStore
from runtime.config import load_with_program
from runtime.errors import ConfigError
from runtime.messages import Message
from runtime.node import Node
from runtime.transport.inproc import InprocNetwork
from tests.journeys.test_regroup import meddled
from tests.support import Simulated, configure, events, run_directory, run_up, train

RELU = 'layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }'
DROPOUT = RELU + ' layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }'
CIFAR = 'data = { train = { format = "synthetic", shape = [3, 32, 32], size = 100 } }\nbase_lr = 0.001\n'


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small actors on one event loop, none with threads of its own; as the processes of `run_up` here."""
    monkeypatch.setenv("CONVOY_THREADS", "1")


def run(
    directory: Path, preset: str, *, batch: int = 10, net: str = "", train_more: str = "", **options: Any
) -> Simulated:
    return train(configured(directory, preset, batch=batch, net=net, train_more=train_more, **options))


def configured(
    directory: Path,
    preset: str,
    *,
    batch: int = 10,
    net: str = "",
    train_more: str = "",
    strategy: str = "",
    **options: Any,
) -> Path:
    """LeNet on digits, or `net` as text, or what `train_more` says; `strategy`: more lines of that section."""
    cluster = configure(directory, preset, **{"iterations": 10, **options})
    more = f"[train]\nbatch = {batch}\n{train_more}"
    if net:
        (directory / "own.prototxt").write_text(net)
        more += 'net = "own.prototxt"\n'
    text = cluster.read_text().replace("[train]\n", more, 1)
    if "data = " in train_more:
        head, _, tail = text.partition("[train.data]\n")
        text = head + tail[tail.index("[train.strategy]") :]
    cluster.write_text(text + strategy)
    return cluster


def difference(found: Simulated, expected: Simulated, but: Sequence[str] = ()) -> float:
    """The largest of all parameters' and histories' differences, relative to the largest number of each."""
    assert found.arrays.keys() == expected.arrays.keys()
    assert all(found.arrays[name].shape == array.shape for name, array in expected.arrays.items())
    return max(
        float(np.abs(found.arrays[name] - array).max() / np.abs(array).max())
        for name, array in expected.arrays.items()
        if name not in but
    )


def lenet_with_dropout() -> str:
    """With mean pooling: which of two nearly equal numbers is the larger, and gets the gradient, hangs on rounding."""
    text = (ZOO / "lenet.prototxt").read_text()
    assert RELU in text and text.count("pool: MAX") == 2
    return text.replace(RELU, DROPOUT).replace("pool: MAX", "pool: AVE")


def cifar10_full() -> str:
    """With larger first weights: BVLC's are so small that after some iterations rounding shows, with `sync` as well."""
    text = (ZOO / "cifar10_full.prototxt").read_text()
    assert "std: 0.0001" in text and "LRN" in text
    return text.replace("std: 0.0001", "std: 0.05").replace("std: 0.01 ", "std: 0.05 ")


# batch 10 over 4 workers: 3, 3, 2 and 2 rows, which scheme c cuts again into 4, some of them empty
@pytest.mark.parametrize("scheme", ["a", "b", "c"])
@pytest.mark.parametrize(("workers", "batch"), [(1, 4), (2, 7), (4, 10)])
def test_one_weird_trick_equals_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, workers: int, batch: int, scheme: str
) -> None:
    net = lenet_with_dropout()
    reference = run(tmp_path / "single", "single", batch=batch, net=net)
    strategy = f'scheme = "{scheme}"\n'
    found = run(tmp_path / "trick", "one-weird-trick", workers=workers, batch=batch, net=net, strategy=strategy)
    assert len(reference.arrays) == 16
    assert difference(found, reference) <= 1e-5
    assert found.losses() == pytest.approx(reference.losses(), rel=1e-4)


@pytest.mark.parametrize("scheme", ["a", "b", "c"])
def test_lenet_as_it_ships_trains_as_in_one_process(tmp_path: Path, scheme: str) -> None:
    reference = run(tmp_path / "single", "single", batch=64)
    strategy = f'scheme = "{scheme}"\n'
    found = run(tmp_path / "trick", "one-weird-trick", workers=2, batch=64, strategy=strategy)
    assert difference(found, reference) <= 1e-5


@pytest.mark.parametrize(("servers", "workers", "scheme"), [(2, 2, "a"), (3, 2, "a"), (2, 3, "b"), (3, 3, "c")])
def test_a_synchronous_group_with_fc_shards_equals_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, servers: int, workers: int, scheme: str
) -> None:
    net = lenet_with_dropout()
    reference = run(tmp_path / "single", "single", net=net)
    strategy = f'servers = {servers}\nscheme = "{scheme}"\n'
    found = run(tmp_path / "shards", "local-fc-shards", workers=workers, net=net, strategy=strategy)
    assert difference(found, reference) <= 1e-5


BATCH_NORM = 'layer { name: "bn" type: "BatchNorm" bottom: "ip1" top: "ip1" }'
BETWEEN = """
layer { name: "scale" type: "Scale" bottom: "ip1" top: "ip1" scale_param { bias_term: true } }
layer { name: "prelu" type: "PReLU" bottom: "ip1" top: "ip1" }
"""


@pytest.mark.parametrize(("scheme", "between"), [("a", BATCH_NORM + BETWEEN), ("b", BETWEEN)])
def test_parameters_between_the_inner_products_get_the_sum_of_the_shards_gradients(
    tmp_path: Path, scheme: str, between: str
) -> None:
    """They are whole in every shard, which has a part of their gradients; statistics are those of an FC batch."""
    net = (ZOO / "lenet.prototxt").read_text().replace(RELU, between)
    reference = run(tmp_path / "single", "single", net=net)
    strategy = f'servers = 3\nscheme = "{scheme}"\n'
    found = run(tmp_path / "shards", "local-fc-shards", workers=2, net=net, strategy=strategy)
    assert {"prelu.0", "scale.0", "scale.1"} <= found.arrays.keys()
    biases = [f"{layer}.1{kind}" for layer in ("conv1", "conv2", "ip1") for kind in ("", ".history")]
    # before BatchNorm, with nothing bent between, biases have the gradient 0, but for rounding
    assert difference(found, reference, but=biases if "bn.0" in found.arrays else ()) <= 1e-5


@pytest.mark.parametrize(
    ("preset", "workers"), [("one-weird-trick", 2), ("one-weird-trick", 4), ("local-fc-shards", 2)]
)
def test_cifar10_full_with_its_normalisation_equals_single_too(tmp_path: Path, preset: str, workers: int) -> None:
    more = {"train_more": CIFAR, "batch": 8, "net": cifar10_full()}
    reference = run(tmp_path / "single", "single", **more)
    found = run(tmp_path / "many", preset, workers=workers, strategy='scheme = "b"\n', **more)
    assert difference(found, reference) <= 1e-5


def test_one_shard_alone_has_the_bits_of_the_merged_fc_server(tmp_path: Path) -> None:
    net = lenet_with_dropout()
    merged = run(tmp_path / "merged", "omnivore", workers=2, net=net, iterations=5)
    alone = run(tmp_path / "alone", "local-fc-shards", workers=2, net=net, iterations=5, strategy="servers = 1\n")
    assert difference(alone, merged) == 0.0


@pytest.mark.parametrize(("preset", "workers"), [("local-fc-shards", 2), ("one-weird-trick", 3)])
def test_the_test_of_a_net_in_shards_has_the_scores_of_the_whole(tmp_path: Path, preset: str, workers: int) -> None:
    reference = run(tmp_path / "single", "single", iterations=3, test=True, batch=32)
    found = run(
        tmp_path / "many", preset, workers=workers, iterations=3, test=True, batch=32, strategy='scheme = "c"\n'
    )
    [expected] = reference.journal.of("test")
    [scores] = found.journal.of("test")
    assert scores["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=1e-4)


def resume_from(cluster: Path, other: str, iteration: int) -> None:
    more = f'[train]\nresume = "../{other}/checkpoint-{iteration:07d}.safetensors"\n'
    cluster.write_text(cluster.read_text().replace("[train]\n", more, 1))


@pytest.mark.parametrize("first", ["single", "one-weird-trick", "local-fc-shards"])
@pytest.mark.parametrize("second", ["single", "one-weird-trick", "local-fc-shards"])
def test_a_checkpoint_of_one_preset_goes_on_in_another(tmp_path: Path, first: str, second: str) -> None:
    workers = {"single": 1, "one-weird-trick": 3, "local-fc-shards": 2}
    whole = run(tmp_path / "whole", "single", iterations=6)
    run(tmp_path / "half", first, workers=workers[first], iterations=3)
    cluster = configured(tmp_path / "rest", second, workers=workers[second], iterations=6)
    resume_from(cluster, "half", 3)
    rest = train(cluster)
    assert len(rest.losses()) == 3
    assert difference(rest, whole) <= 1e-5


def test_a_resumed_run_with_shards_equals_an_unbroken_one_to_the_last_bit(tmp_path: Path) -> None:
    options: dict[str, Any] = {"workers": 3, "strategy": 'scheme = "b"\n'}
    whole = run(tmp_path / "whole", "one-weird-trick", iterations=6, **options)
    run(tmp_path / "half", "one-weird-trick", iterations=4, **options)
    cluster = configured(tmp_path / "rest", "one-weird-trick", iterations=6, **options)
    resume_from(cluster, "half", 4)
    assert difference(train(cluster), whole) == 0.0


def test_first_weights_of_a_file_are_cut_for_the_shards(tmp_path: Path) -> None:
    run(tmp_path / "made", "single", iterations=2)
    weights = 'weights = "../made/checkpoint-0000002.safetensors"\n'
    reference = run(tmp_path / "single", "single", iterations=2, train_more=weights)
    found = run(tmp_path / "trick", "one-weird-trick", workers=2, iterations=2, train_more=weights)
    assert difference(found, reference) <= 1e-5


@pytest.mark.parametrize("scheme", ["a", "b", "c"])
def test_whoever_is_late_the_numbers_are_the_same_to_the_last_bit(tmp_path: Path, scheme: str) -> None:
    delays = np.random.default_rng(0)
    strategy = f'scheme = "{scheme}"\n'
    at_once = run(tmp_path / "a", "one-weird-trick", workers=3, iterations=4, strategy=strategy)
    late = train(
        configured(tmp_path / "b", "one-weird-trick", workers=3, iterations=4, strategy=strategy),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    assert difference(late, at_once) == 0.0


@pytest.mark.parametrize("scheme", ["a", "b", "c"])
def test_groups_that_compete_for_the_shards_are_served_in_one_order_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Shards that took two groups' batches in different orders would wait for one another for ever (Deadlock)."""
    delays, ask = np.random.default_rng(1), Node.ask

    async def late(node: Node, sender: str, to: str, message: Message, answer: type[Any], **about: Any) -> Any:
        if isinstance(message, ActivationSlice):  # what one shard gets first comes to another last
            await asyncio.sleep(float(delays.exponential(0.05)))
        return await ask(node, sender, to, message, answer, **about)

    monkeypatch.setattr(Node, "ask", late)
    strategy = f'servers = 3\nscheme = "{scheme}"\n'
    found = train(
        configured(tmp_path, "local-fc-shards", workers=5, groups=3, iterations=40, strategy=strategy),
        service_time=lambda actor, label: 0.01,
    )
    assert len(found.losses()) == 40
    assert np.mean(found.losses()[-5:]) < np.mean(found.losses()[:5])


def test_groups_and_rates_change_while_the_shards_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, float]] = []
    monkeypatch.setattr(ParameterStore, "set_rates", lambda store, *rates: told.append(rates))
    strategy = 'servers = 3\nscheme = "c"\nlive = true\n'
    cluster = configured(tmp_path, "local-fc-shards", workers=4, groups=2, iterations=40, strategy=strategy)
    changes = [{"workers": 3, "groups": 3}, {"workers": 4, "groups": 1, "base_lr": 0.005, "momentum": 0.5}]
    journal = meddled(cluster, changes, [])
    assert [fields["groups"] for fields in journal.of("regrouped")] == [3, 1]
    assert told == [pytest.approx((0.005, 0.5))] * 4  # the conv model and every shard
    assert len(journal.of("progress")) == 40


def test_with_scheme_b_a_worker_is_answered_while_the_next_ones_rows_are_computed(tmp_path: Path) -> None:
    """A worker's FC batch is done, and its conv phase goes backward, before the last FC batch begins."""
    log: list[tuple[str, str]] = []

    def noted(actor: str, label: str) -> float:
        log.append((actor, label))
        return 0.1 if label.startswith("fc") else 0.01

    strategy = 'servers = 2\nscheme = "b"\n'
    train(configured(tmp_path, "local-fc-shards", workers=3, iterations=1, strategy=strategy), service_time=noted)
    begun = [at for at, (actor, label) in enumerate(log) if actor == "fc-0" and label == "fc TRAIN"]
    conv = next(at for at, (actor, label) in enumerate(log) if actor == "conv-0-0" and label == "backward conv2")
    assert conv < begun[-1]


@pytest.mark.parametrize(
    ("preset", "scheme"), [("one-weird-trick", "b"), ("one-weird-trick", "c"), ("local-fc-shards", "b")]
)
def test_with_a_variable_batch_the_fc_phase_is_updated_after_each_part_and_the_conv_phase_once(
    tmp_path: Path, preset: str, scheme: str
) -> None:
    workers, batch, iterations = 3, 10, 4
    strategy = f'scheme = "{scheme}"\nvariable_batch = true\n'
    options: dict[str, Any] = {"workers": workers, "batch": batch, "iterations": iterations, "strategy": strategy}
    found = run(tmp_path / "many", preset, net=lenet_with_dropout(), **options).arrays
    expected = by_hand(tmp_path / "many", scheme, (0, 4, 7, 10), batch, iterations)
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= 1e-5 * np.abs(array).max(), name


def by_hand(directory: Path, scheme: str, cuts: tuple[int, ...], batch: int, iterations: int) -> dict[str, Any]:
    """One weird trick, section 4.2, on one machine: the two phases as nets, each with its own updates."""
    backend, spec = ops.get_backend("numpy"), load_net(directory / "own.prototxt")
    solver = load_solver(directory / "solver.prototxt")
    loaded = load_with_program(directory / "cluster.toml")
    assert isinstance(loaded.options, Options)
    job_options = plan(loaded.config, loaded.options).actors[0].options["job"]
    job = Job.from_options(job_options)
    source = job.source("TRAIN")
    batches = job.batches("TRAIN", source)
    common: dict[str, Any] = {"ops": backend, "batch": batch, "input_shape": source.shape, "seed": job.seed}
    conv, fc = (Net(spec, "TRAIN", part=part, **common) for part in ("conv", "fc"))
    stores = {net: ParameterStore(net.params, net.initial_blobs(), solver, backend) for net in (conv, fc)}

    def backward(net: Net) -> dict[str, Any]:
        found = {stage.layer: net.backward(stage) for stage in reversed(net.stages)}
        return {layer: gradients for layer, gradients in found.items() if layer is not None}

    for step in range(iterations):
        data, labels = batches.read(step, 0, batch)
        conv.run({"data": data, "label": labels}, {layer: stores[conv].read(layer) for layer in conv.params}, step)
        crossed = {name: conv.blob(name) for name in conv.boundary}
        back = np.zeros_like(crossed["pool2"])
        parts = fc_batches(scheme, cuts)
        for part, members in enumerate(parts):
            spans = [span for _, span in members]
            rows = np.concatenate([np.arange(low, high) for low, high in spans])
            fc.begin(step, *spans)
            for name, array in crossed.items():
                fc.feed(name, np.ascontiguousarray(array[rows]))
            for layer in fc.params:
                fc.load(layer, stores[fc].read(layer))
            for stage in fc.stages:
                fc.forward(stage)
            gradients = backward(fc)
            back[rows] = fc.grad("pool2")  # of the mean over the whole batch
            for layer, blobs in gradients.items():  # of the mean over the part
                mean = tuple(blob * (batch / len(rows)) for blob in blobs)
                stores[fc].apply(layer, mean, counts=part == len(parts) - 1)
        conv.set_grad("pool2", back)
        for layer, blobs in backward(conv).items():
            stores[conv].apply(layer, blobs)
    return stores[conv].state() | stores[fc].state()


@pytest.mark.parametrize("kind", [FcTurn, Columns])
def test_a_run_in_which_shards_say_everything_twice_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Message]
) -> None:
    options: dict[str, Any] = {"workers": 3, "groups": 2, "iterations": 4, "strategy": 'servers = 3\nscheme = "b"\n'}
    clean = run(tmp_path / "clean", "local-fc-shards", **options)
    send, repeated = Node.send, []

    async def twice(node: Node, sender: str, to: str, message: Message, **about: Any) -> None:
        await send(node, sender, to, message, **about)
        if type(message) is kind:
            repeated.append(message)
            await send(node, sender, to, message, **about)

    monkeypatch.setattr(Node, "send", twice)
    assert difference(run(tmp_path / "doubled", "local-fc-shards", **options), clean) == 0.0
    assert repeated


def problems_of(cluster: Path) -> str:
    loaded = load_with_program(cluster)
    assert isinstance(loaded.options, Options)
    with pytest.raises(ConfigError) as caught:
        plan(loaded.config, loaded.options)
    return str(caught.value)


@pytest.mark.parametrize("preset", ["one-weird-trick", "local-fc-shards"])
def test_a_net_whose_fc_phase_is_no_chain_is_refused_before_anything_starts(tmp_path: Path, preset: str) -> None:
    beside = (
        'layer { name: "beside" type: "InnerProduct" bottom: "pool2" top: "x" inner_product_param { num_output: 5 } }'
    )
    text = (ZOO / "lenet.prototxt").read_text() + beside
    said = problems_of(configured(tmp_path / "net", preset, workers=2, net=text))
    assert "train.net: own.prototxt:" in said and "layer 'beside'" in said and "beside 'ip1'" in said


def test_more_servers_than_units_and_a_variable_batch_of_one_part_are_refused(tmp_path: Path) -> None:
    many = configured(tmp_path / "many", "local-fc-shards", workers=2, strategy="servers = 11\n")
    assert "layer 'ip2': key 'inner_product_param.num_output': found 10, expected at least 11" in problems_of(many)
    one = configured(tmp_path / "one", "one-weird-trick", workers=2, strategy="variable_batch = true\n")
    assert "train.strategy.variable_batch: found true with scheme 'a'" in problems_of(one)


def test_a_variable_batch_is_refused_where_a_loss_is_a_sum_whose_parts_have_no_weight(tmp_path: Path) -> None:
    text = (ZOO / "lenet.prototxt").read_text()
    sums = text.replace('type: "SoftmaxWithLoss"', 'type: "SoftmaxWithLoss" loss_param { normalization: NONE }')
    assert sums != text
    strategy = 'scheme = "b"\nvariable_batch = true\n'
    said = problems_of(configured(tmp_path, "one-weird-trick", workers=2, net=sums, strategy=strategy))
    assert "train.strategy.variable_batch: found true with a loss whose normalization is NONE" in said


def test_a_worker_and_its_shard_share_a_process_and_no_other_server_is_there(tmp_path: Path) -> None:
    loaded = load_with_program(configured(tmp_path, "one-weird-trick", workers=3))
    assert isinstance(loaded.options, Options)
    topology = plan(loaded.config, loaded.options)
    roles = {actor.name: (actor.role, actor.process) for actor in topology.actors}
    expected = {f"worker-{k}": ("conv_replica", f"worker-{k}") for k in range(3)}
    expected |= {f"fc-{k}": ("fc_shard", f"worker-{k}") for k in range(3)}
    assert roles == {"coordinator": ("coordinator", ""), **expected}


@pytest.mark.parametrize(("preset", "processes"), [("one-weird-trick", 3), ("local-fc-shards", 7)])
def test_real_processes_have_the_bits_of_the_simulation(tmp_path: Path, preset: str, processes: int) -> None:
    options: dict[str, Any] = {"workers": 2, "iterations": 4, "batch": 16, "strategy": 'scheme = "b"\n'}
    simulated = run(tmp_path / "sim", preset, **options)
    cluster = configured(tmp_path / "up", preset, more="[[machine]]\nthreads = 1\n", **options)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert len(list((directory / "logs").iterdir())) == processes
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    for name, expected in simulated.arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name

"""An FC phase on several servers, separate or on the workers themselves: it trains like one process
with the whole net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nets.definition.spec import ZOO
from nets.files import checkpoint
from roles import Options, plan
from runtime.config.file import load_with_program
from tests.helpers.fc_shards import (
    CIFAR,
    RELU,
    cifar10_full,
    configured,
    difference,
    lenet_with_dropout,
    problems_of,
    resume_from,
    run,
)
from tests.helpers.support import events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.few("[2-7-b]", "[2-7-c]", "[3-7-c2]")
# batch 10 over 4 workers: 3, 3, 2 and 2 rows; scheme c divides each again into 4, some of them
# empty
@pytest.mark.parametrize(
    ("workers", "batch", "scheme"),
    [
        *((*shape, scheme) for shape in ((1, 4), (2, 7), (4, 10)) for scheme in "abc"),
        (3, 7, "c2"),
        (4, 10, "c2"),
    ],
)
def test_one_weird_trick_equals_single_in_every_parameter_after_10_iterations(
    tmp_path: Path, workers: int, batch: int, scheme: str
) -> None:
    net = lenet_with_dropout()
    reference = run(tmp_path / "single", "single", batch=batch, net=net)
    strategy = f'scheme = "{scheme}"\n'
    found = run(
        tmp_path / "trick",
        "one-weird-trick",
        workers=workers,
        batch=batch,
        net=net,
        strategy=strategy,
    )
    assert len(reference.arrays) == 16
    assert difference(found, reference) <= 1e-5
    assert found.losses() == pytest.approx(reference.losses(), rel=1e-4)


@pytest.mark.few("[b]")
@pytest.mark.parametrize("scheme", ["a", "b", "c"])
def test_lenet_as_it_ships_trains_as_in_one_process(tmp_path: Path, scheme: str) -> None:
    reference = run(tmp_path / "single", "single", batch=64)
    strategy = f'scheme = "{scheme}"\n'
    found = run(tmp_path / "trick", "one-weird-trick", workers=2, batch=64, strategy=strategy)
    assert difference(found, reference) <= 1e-5


@pytest.mark.few("[3-3-c]")
@pytest.mark.parametrize(
    ("servers", "workers", "scheme"), [(2, 2, "a"), (3, 2, "a"), (2, 3, "b"), (3, 3, "c")]
)
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


@pytest.mark.few("[a-")
@pytest.mark.parametrize(("scheme", "between"), [("a", BATCH_NORM + BETWEEN), ("b", BETWEEN)])
def test_parameters_between_the_inner_products_get_the_sum_of_the_shards_gradients(
    tmp_path: Path, scheme: str, between: str
) -> None:
    """Every shard has the whole parameters, and a part of their gradients. The statistics are those
    of an FC batch."""
    net = (ZOO / "lenet.prototxt").read_text().replace(RELU, between)
    reference = run(tmp_path / "single", "single", net=net)
    strategy = f'servers = 3\nscheme = "{scheme}"\n'
    found = run(tmp_path / "shards", "local-fc-shards", workers=2, net=net, strategy=strategy)
    assert {"prelu.0", "scale.0", "scale.1"} <= found.arrays.keys()
    biases = [
        f"{layer}.1{kind}" for layer in ("conv1", "conv2", "ip1") for kind in ("", ".history")
    ]
    # Biases before BatchNorm, without an activation in between, have the gradient 0, apart from
    # rounding.
    assert difference(found, reference, but=biases if "bn.0" in found.arrays else ()) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "workers"), [("one-weird-trick", 2), ("one-weird-trick", 4), ("local-fc-shards", 2)]
)
def test_cifar10_full_with_its_normalisation_equals_single_too(
    tmp_path: Path, preset: str, workers: int
) -> None:
    # in float32 another pixel can become a window's maximum, and then gradients take another way
    # (docs/strategies.md)
    more = {"train_more": f'precision = "double"\n{CIFAR}', "batch": 8, "net": cifar10_full()}
    reference = run(tmp_path / "single", "single", **more)
    found = run(tmp_path / "many", preset, workers=workers, strategy='scheme = "b"\n', **more)
    assert difference(found, reference) <= 1e-5


def test_a_single_shard_has_the_bits_of_the_merged_fc_server(tmp_path: Path) -> None:
    net = lenet_with_dropout()
    merged = run(tmp_path / "merged", "omnivore", workers=2, net=net, iterations=5)
    alone = run(
        tmp_path / "alone",
        "local-fc-shards",
        workers=2,
        net=net,
        iterations=5,
        strategy="servers = 1\n",
    )
    assert difference(alone, merged) == 0.0


@pytest.mark.few("[one-weird-trick-3]")
@pytest.mark.parametrize(("preset", "workers"), [("local-fc-shards", 2), ("one-weird-trick", 3)])
def test_the_test_of_a_net_in_shards_has_the_scores_of_the_whole(
    tmp_path: Path, preset: str, workers: int
) -> None:
    reference = run(tmp_path / "single", "single", iterations=3, test=True, batch=32)
    found = run(
        tmp_path / "many",
        preset,
        workers=workers,
        iterations=3,
        test=True,
        batch=32,
        strategy='scheme = "c"\n',
    )
    [expected] = reference.journal.of("test")
    [scores] = found.journal.of("test")
    assert scores["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)
    assert scores["loss"] == pytest.approx(expected["loss"], rel=1e-4)


@pytest.mark.few("[one-weird-trick-local-fc-shards]", "[local-fc-shards-single]")
@pytest.mark.parametrize("first", ["single", "one-weird-trick", "local-fc-shards"])
@pytest.mark.parametrize("second", ["single", "one-weird-trick", "local-fc-shards"])
def test_a_checkpoint_of_one_preset_is_resumed_by_another(
    tmp_path: Path, first: str, second: str
) -> None:
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


@pytest.mark.parametrize("preset", ["one-weird-trick", "local-fc-shards"])
def test_a_net_whose_fc_phase_is_not_a_chain_is_refused_before_anything_starts(
    tmp_path: Path, preset: str
) -> None:
    beside = (
        'layer { name: "beside" type: "InnerProduct" bottom: "pool2" top: "x" '
        "inner_product_param { num_output: 5 } }"
    )
    text = (ZOO / "lenet.prototxt").read_text() + beside
    said = problems_of(configured(tmp_path / "net", preset, workers=2, net=text))
    assert (
        "train.net: own.prototxt:" in said
        and "layer 'beside'" in said
        and "parallel to 'ip1'" in said
    )


def test_more_servers_than_units_and_a_variable_batch_of_one_part_are_refused(
    tmp_path: Path,
) -> None:
    many = configured(tmp_path / "many", "local-fc-shards", workers=2, strategy="servers = 11\n")
    assert (
        "layer 'ip2': key 'inner_product_param.num_output': found 10, expected at least 11"
    ) in problems_of(many)
    one = configured(
        tmp_path / "one", "one-weird-trick", workers=2, strategy="variable_batch = true\n"
    )
    assert "train.strategy.variable_batch: found true with scheme 'a'" in problems_of(one)


def test_a_worker_and_its_shard_share_a_process_and_no_other_server_is_there(
    tmp_path: Path,
) -> None:
    loaded = load_with_program(configured(tmp_path, "one-weird-trick", workers=3))
    assert isinstance(loaded.options, Options)
    topology = plan(loaded.config, loaded.options)
    roles = {actor.name: (actor.role, actor.process) for actor in topology.actors}
    expected = {f"worker-{k}": ("conv_replica", f"worker-{k}") for k in range(3)}
    expected |= {f"fc-{k}": ("fc_shard", f"worker-{k}") for k in range(3)}
    assert roles == {"coordinator": ("coordinator", ""), **expected}


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "processes"), [("one-weird-trick", 3), ("local-fc-shards", 6)])
def test_real_processes_have_the_bits_of_the_simulation(
    tmp_path: Path, preset: str, processes: int
) -> None:
    options: dict[str, Any] = {
        "workers": 2,
        "iterations": 4,
        "batch": 16,
        "strategy": 'scheme = "b"\n',
    }
    simulated = run(tmp_path / "sim", preset, **options)
    cluster = configured(tmp_path / "up", preset, more="[[machine]]\nthreads = 1\n", **options)
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    directory = run_directory(cluster)
    assert len(list((directory / "logs").iterdir())) == processes
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    for name, expected in simulated.arrays.items():
        assert arrays[name].tobytes() == expected.tobytes(), name

"""With `reproducible`, every preset that is equal to one process has the same bits in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nets.definition.spec import ZOO
from nets.files import checkpoint
from tests.helpers.added_layers import OF_TODAY
from tests.helpers.fc_shards import CIFAR, configured, difference, lenet_with_dropout, problems_of
from tests.helpers.support import Simulated, events, run_directory, run_up, train

pytestmark = pytest.mark.usefixtures("one_thread")

REPRODUCIBLE = "reproducible = true\n"
PRESETS = [
    *[("sync", workers, "") for workers in (1, 2, 8)],
    *[("replicas", workers, "") for workers in (1, 2, 8)],
    *[("firecaffe", workers, "") for workers in (1, 4, 8)],
    *[("host-accumulate", workers, "") for workers in (2, 8)],
    *[("parameter-server", workers, "") for workers in (2, 8)],
    ("mxnet-sync", 4, "servers = 2\n"),
    ("singa", 8, "servers = 2\n"),
    *[
        ("local-fc-shards", workers, f"servers = {servers}\n")
        for workers, servers in ((1, 1), (2, 2), (4, 8))
    ],
    *[("one-weird-trick", workers, 'scheme = "a"\n') for workers in (1, 2, 8)],
    *[("one-weird-trick", workers, 'scheme = "b"\n') for workers in (2, 4)],
    *[("one-weird-trick", workers, 'scheme = "c"\n') for workers in (1, 2, 4)],
    *[("one-weird-trick", workers, 'scheme = "c2"\n') for workers in (4, 8)],
]


def run(directory: Path, preset: str, workers: int, more: str, **options: Any) -> Simulated:
    return train(
        configured(directory, preset, workers=workers, strategy=more + REPRODUCIBLE, **options)
    )


def assert_same_bits(found: Simulated, expected: Simulated) -> None:
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """LeNet with dropout between its InnerProducts, with 20 rows: micro-batches of 3 and of 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return run(
            tmp_path_factory.mktemp("single"), "single", 1, "", batch=20, net=lenet_with_dropout()
        )


@pytest.mark.few(
    "[one-weird-trick-4",
    "[local-fc-shards-2",
    "[singa-8",
    "[sync-1",
    "[replicas-8",
    "[parameter-server-8",
)
@pytest.mark.parametrize(("preset", "workers", "more"), PRESETS)
def test_lenet_has_the_bits_of_one_process(
    tmp_path: Path, single: Simulated, preset: str, workers: int, more: str
) -> None:
    assert_same_bits(
        run(tmp_path, preset, workers, more, batch=20, net=lenet_with_dropout()), single
    )


@pytest.mark.parametrize(("workers", "scheme"), [(2, "c"), (4, "c"), (8, "c2")])
def test_schemes_have_the_bits_of_one_process_if_half_a_share_would_cut_a_micro_batch(
    tmp_path: Path, workers: int, scheme: str
) -> None:
    """Ten rows: two micro-batches of two rows, then six of one."""
    options: dict[str, Any] = {"batch": 10, "iterations": 3, "net": lenet_with_dropout()}
    expected = run(tmp_path / "single", "single", 1, "", **options)
    more = f'scheme = "{scheme}"\n'
    found = run(tmp_path / "trick", "one-weird-trick", workers, more, **options)
    assert_same_bits(found, expected)


def test_without_it_most_bits_differ_so_the_comparison_means_something(
    tmp_path: Path, single: Simulated
) -> None:
    plain = train(configured(tmp_path, "replicas", workers=2, batch=20, net=lenet_with_dropout()))
    differ = [
        name
        for name, array in single.arrays.items()
        if plain.arrays[name].tobytes() != array.tobytes()
    ]
    assert len(differ) == len(single.arrays)


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """BVLC's CIFAR-10 full, for which runs with another order of addition differ by 1e-4."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return run(tmp_path_factory.mktemp("cifar10"), "single", 1, "", **FULL)


FULL: dict[str, Any] = {
    "batch": 100,
    "net": (ZOO / "cifar10_full.prototxt").read_text(),
    "train_more": CIFAR,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "workers", "more"),
    [
        ("sync", 2, ""),
        ("replicas", 4, ""),
        ("firecaffe", 8, ""),
        ("parameter-server", 4, ""),
        ("local-fc-shards", 2, "servers = 4\n"),
        ("one-weird-trick", 2, 'scheme = "a"\n'),
        ("one-weird-trick", 4, 'scheme = "b"\n'),
        ("one-weird-trick", 2, 'scheme = "c"\n'),
    ],
)
def test_cifar10_full_with_lrn_has_the_bits_of_one_process(
    tmp_path: Path, cifar10: Simulated, preset: str, workers: int, more: str
) -> None:
    assert_same_bits(run(tmp_path, preset, workers, more, **FULL), cifar10)


def test_a_run_in_processes_has_the_bits_of_one_on_virtual_time(
    tmp_path: Path, single: Simulated
) -> None:
    cluster = configured(
        tmp_path,
        "one-weird-trick",
        workers=2,
        batch=20,
        net=lenet_with_dropout(),
        strategy=REPRODUCIBLE,
    )
    assert run_up(cluster).returncode == 0
    directory = run_directory(cluster)
    arrays, _ = checkpoint.load(directory / events(directory, "checkpoint")[-1]["file"])
    assert_same_bits(Simulated(single.journal, arrays), single)


@pytest.fixture(scope="module")
def of_today(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A net of layers that Caffe lacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVOY_THREADS", "1")
        return run(tmp_path_factory.mktemp("today"), "single", 1, "", batch=20, net=OF_TODAY)


@pytest.mark.few("[sync-2", "[firecaffe-4", "[one-weird-trick-2-scheme")
@pytest.mark.parametrize(
    ("preset", "workers", "more"),
    [
        ("sync", 2, ""),
        ("replicas", 4, ""),
        ("firecaffe", 4, ""),
        ("host-accumulate", 2, ""),
        ("parameter-server", 8, ""),
        ("local-fc-shards", 2, "servers = 2\n"),
        ("one-weird-trick", 2, 'scheme = "b"\n'),
    ],
)
def test_layers_that_caffe_lacks_have_the_bits_of_one_process(
    tmp_path: Path, of_today: Simulated, preset: str, workers: int, more: str
) -> None:
    found = run(tmp_path, preset, workers, more, batch=20, net=OF_TODAY)
    assert_same_bits(found, of_today)


LAYER = 'layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }'


@pytest.mark.parametrize(
    "other",
    [
        LAYER.replace("ReLU", "PReLU"),
        LAYER.replace("ReLU", "TanH"),
        LAYER.replace(" }", " relu_param { negative_slope: 0.1 } }"),
        LAYER.replace('"ReLU"', '"Dropout" dropout_param { dropout_ratio: 0.4 }'),
    ],
)
def test_layers_that_round_between_inner_products_are_refused_on_shards_alone(
    tmp_path: Path, other: str
) -> None:
    text = (ZOO / "lenet.prototxt").read_text()
    assert LAYER in text
    for preset, more, refused in (
        ("local-fc-shards", "servers = 2\n", True),
        ("local-fc-shards", "servers = 1\n", False),
        ("sync", "", False),
    ):
        directory = tmp_path / f"{preset} {more[-2:-1]}"
        net = text.replace(LAYER, other)
        cluster = configured(
            directory, preset, batch=20, net=net, strategy=more + REPRODUCIBLE, iterations=1
        )
        if refused:
            assert (
                "reproducible: found true, but layer 'relu1' before an InnerProduct rounds"
            ) in problems_of(cluster)
        else:
            train(cluster)


def test_it_computes_the_same_as_a_run_without_it(tmp_path: Path, single: Simulated) -> None:
    plain = train(configured(tmp_path, "single", batch=20, net=lenet_with_dropout()))
    assert difference(single, plain) <= 1e-5

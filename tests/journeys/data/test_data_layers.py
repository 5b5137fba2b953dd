"""Nets whose data layers read their own sources, and nets without labels, from cluster.toml to the
trained parameters."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from nets import Net, load_net
from nets.data.sources.digits import read
from nets.definition.spec import ZOO
from nets.files.weights import write_weights
from ops import get_backend
from runtime.cli.main import main
from tests.helpers.support import Simulated, configure, train

SHARED = Path(__file__).parents[4] / "shared" / "data"
AUTOENCODER = SHARED / "caffe" / "models" / "mnist_autoencoder"
BODY = (ZOO / "lenet.prototxt").read_text().split("# layers")[-1]
LENET = (ZOO / "lenet.prototxt").read_text()
APART = """
layer { name: "images" type: "Data" top: "data" transform_param { scale: 0.00390625 } data_param { batch_size: 8 } }
layer { name: "targets" type: "HDF5Data" top: "label" hdf5_data_param { batch_size: 8 } }
"""
TABLES = """[train.data.train]
images = { format = "digits", split = "train" }
targets = { format = "hdf5", source = "labels.h5" }
"""
AUTO = """
layer { name: "data" type: "Data" top: "data" transform_param { scale: 0.0039215684 } data_param { batch_size: 32 } }
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "encode" type: "InnerProduct" bottom: "data" top: "encode"
  inner_product_param { num_output: 12 weight_filler { type: "gaussian" std: 1 sparse: 15 } } }
layer { name: "code" type: "Sigmoid" bottom: "encode" top: "code" }
layer { name: "decode" type: "InnerProduct" bottom: "code" top: "decode"
  inner_product_param { num_output: 784 weight_filler { type: "gaussian" std: 1 sparse: 15 } } }
layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "decode" bottom: "flat" top: "cross_entropy" }
layer { name: "image" type: "Sigmoid" bottom: "decode" top: "image" }
layer { name: "loss" type: "EuclideanLoss" bottom: "image" bottom: "flat" top: "l2_error" loss_weight: 0 }
"""


def without_data(net: str) -> str:
    """The prototxt of a net of the zoo behind its data layers."""
    return net[net.index('layer {\n  name: "conv1"') :]


def run(
    directory: Path, preset: str, net: str, tables: str = "", soft: bool = False, **options: int
) -> Simulated:
    """Train a net that is given as text. `tables` replace the one source; its labels are then
    numbers of classes, or if `soft` probabilities of the classes."""
    cluster = configure(directory, preset, **{"batch": 8, **options})
    (directory / "own.prototxt").write_text(net)
    text = cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
    if tables:
        text = text.replace(
            ('train = { format = "digits", split = "train" }\n'), "shuffle = true\n" + tables
        )
        with h5py.File(directory / "labels.h5", "w") as file:
            labels = read(base_dir=Path(), split="train")[1]
            file["label"] = np.eye(10, dtype="f4")[labels] if soft else labels[:, None].astype("f4")
    else:
        text = text.replace("[train.data]\n", "[train.data]\nshuffle = true\n")
    cluster.write_text(text)
    return train(cluster)


@pytest.mark.few("single", "omnivore")
@pytest.mark.parametrize(
    "preset", ["single", "replicas", "mxnet-sync", "omnivore", "local-fc-shards"]
)
def test_images_and_labels_in_two_sources_train_as_in_one_source(
    tmp_path: Path, preset: str
) -> None:
    body = without_data(LENET)
    one = (
        'layer { name: "d" type: "Data" top: "data" top: "label" transform_param { scale: '
        "0.00390625 } }\n"
    )
    workers = 1 if preset == "single" else 2
    together = run(tmp_path / "a", preset, one + body, iterations=3, workers=workers)
    apart = run(tmp_path / "b", preset, APART + body, TABLES, iterations=3, workers=workers)
    assert apart.losses() == together.losses()
    assert all(np.array_equal(array, apart.arrays[name]) for name, array in together.arrays.items())


@pytest.mark.few("single", "local-fc-shards")
@pytest.mark.parametrize("preset", ["single", "replicas", "omnivore", "local-fc-shards"])
def test_labels_that_are_probabilities_train_as_the_classes_that_they_are_sure_of(
    tmp_path: Path, preset: str
) -> None:
    net = APART + without_data(LENET)
    options = {"iterations": 3, "workers": 1 if preset == "single" else 2}
    classes, soft = (
        run(tmp_path / str(each), preset, net, TABLES, soft=each, **options)
        for each in (False, True)
    )
    assert soft.losses() == pytest.approx(classes.losses(), rel=1e-5)
    for name, array in classes.arrays.items():
        bound = 1e-5 * np.abs(array).max()
        np.testing.assert_allclose(soft.arrays[name], array, rtol=0, atol=bound)


@pytest.mark.parametrize("preset", ["single", "replicas"])
def test_an_autoencoder_trains_on_images_alone(tmp_path: Path, preset: str) -> None:
    losses = run(
        tmp_path, preset, AUTO, iterations=12, workers=1 if preset == "single" else 2
    ).losses()
    assert losses[0] > 1.3 * losses[-1]
    assert losses == pytest.approx(
        run(tmp_path / "one", "single", AUTO, iterations=12).losses(), rel=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["single", "replicas"])
def test_bvlcs_autoencoder_trains_and_is_tested_by_its_own_files(
    tmp_path: Path, preset: str
) -> None:
    if not AUTOENCODER.is_dir():
        pytest.skip("needs BVLC's mnist_autoencoder in ../shared/data, which is not here")
    cluster = configure(tmp_path, preset, workers=2, test=True)
    digits = SHARED / "mnist" / "train"
    files = f'images = "{digits}-images-idx3-ubyte.gz", labels = "{digits}-labels-idx1-ubyte.gz"'
    tested = ", ".join(f'{{ format = "digits", split = "{split}" }}' for split in ("train", "test"))
    text = cluster.read_text().replace(
        'format = "digits", split = "train"', f'format = "idx", {files}', 1
    )
    text = text.replace('test = { format = "digits", split = "test" }', f"test = [{tested}]")
    lines = f'max_iter = 40\nnet = "{AUTOENCODER / "mnist_autoencoder.prototxt"}"\n'
    solver = f'solver = "{AUTOENCODER / "mnist_autoencoder_solver.prototxt"}"'
    cluster.write_text(
        text.replace("[train]\n", f"[train]\n{lines}", 1).replace(
            'solver = "solver.prototxt"', solver
        )
    )
    journal = train(cluster, checkpoint=False).journal
    names = [event["net"] for event in journal.of("test")]
    # before the first iteration and at the end
    assert names == ["test-on-train", "test-on-test"] * 2
    first, last = (
        {event["net"]: event for event in journal.of("test")[part]}
        for part in (slice(2), slice(2, 4))
    )
    for name in ("test-on-train", "test-on-test"):
        assert last[name]["cross_entropy_loss"] < 0.5 * first[name]["cross_entropy_loss"]


DEPLOY = 'name: "deployed" input: "data" input_shape { dim: 64 dim: 1 dim: 28 dim: 28 }\n'
TEST_ONLY = (
    '[train]\nnet = "deploy.prototxt"\n[train.data]\ntest = { format = "digits", split = "test" }\n'
)


def deployed(directory: Path, body: str) -> Path:
    """Write a net for deployment, its first parameters and a cluster.toml. Returns the file of
    parameters."""
    (directory / "deploy.prototxt").write_text(DEPLOY + body)
    (directory / "cluster.toml").write_text(TEST_ONLY)
    net = Net(load_net(directory / "deploy.prototxt"), "TEST", ops=get_backend("numpy"))
    write_weights(directory / "w.caffemodel", net.initial_blobs())
    return directory / "w.caffemodel"


CLASSES = """layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }"""


def test_a_net_for_deployment_is_scored_by_the_labels_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = deployed(tmp_path, CLASSES)
    assert (
        main(
            [
                "test",
                str(weights),
                str(tmp_path / "cluster.toml"),
                "--set=train.solver=lenet_digits_solver",
            ]
        )
        == 0
    )
    images, labels, _ = read(base_dir=Path(), split="test")
    net = Net(load_net(tmp_path / "deploy.prototxt"), "TEST", ops=get_backend("numpy"), batch=359)
    net.run({"data": images}, net.initial_blobs())
    right = float(np.mean(net.blob("prob").argmax(1) == labels))
    expected = (
        f"accuracy by the data's labels (largest number of 'prob') {right:.4f} on 359 images\n"
    )
    assert capsys.readouterr().out == expected


def test_a_net_for_deployment_without_classes_reports_the_mean_of_each_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = deployed(
        tmp_path, CLASSES + ('layer { name: "s" type: "Sigmoid" bottom: "data" top: "s" }')
    )
    assert main(["test", str(weights), str(tmp_path / "cluster.toml")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "mean of output 'prob' 0.1000 on 359 images"
    assert out[1].startswith("mean of output 's' ")


@pytest.mark.parametrize(
    ("net", "problem"),
    [
        (
            DEPLOY + CLASSES,
            "own.prototxt: found no loss in phase TRAIN, expected one: there is nothing to learn",
        ),
        (
            AUTO.replace('type: "Data" top: "data"', 'type: "Input" top: "data" input_param ' '' '' '{ shape { dim: 2 dim: 1 '
            'dim: 28 dim: 27 } }').replace("784", "756"),
            "own.prototxt: top 'data': found samples of shape (1, 28, 28), expected (1, 28, 27)",
        ),
        (
            AUTO + ('layer { name: "x" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { ' '' '' 'batch_size: 32 } }'),
            "own.prototxt: found 2 arrays per sample (digits), expected 3: data, x, y",
        ),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_the_net_are_reported_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], net: str, problem: str
) -> None:
    cluster = configure(tmp_path, "single")
    (tmp_path / "own.prototxt").write_text(net)
    cluster.write_text(
        cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
    )
    assert main(["check", str(cluster)]) == 2
    assert capsys.readouterr().err.splitlines() == [f"{cluster}:3: train.net: {problem}"]


def test_emulated_workers_need_none_of_several_sources(tmp_path: Path) -> None:
    devices = '[train.devices]\n"conv-*" = "emulated"\n"fc_server" = "emulated"\n'
    directory = tmp_path / "run"
    cluster = configure(directory, "omnivore", workers=2, iterations=2)
    (directory / "own.prototxt").write_text(APART + without_data(LENET))
    with h5py.File(directory / "labels.h5", "w") as file:
        file["label"] = np.zeros((1438, 1), np.float32)
    text = cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
    cluster.write_text(
        text.replace(('train = { format = "digits", split = "train" }\n'), TABLES) + devices
    )
    assert train(cluster, checkpoint=False).losses() == [0.0, 0.0]


def test_an_emulated_worker_needs_no_labels_that_the_net_does_not_read(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "single", iterations=2)
    (tmp_path / "own.prototxt").write_text(AUTO)
    text = cluster.read_text().replace("[train]\n", '[train]\nnet = "own.prototxt"\n', 1)
    cluster.write_text(text + '[train.devices]\nsingle = "emulated"\n')
    assert train(cluster, checkpoint=False).losses() == [0.0, 0.0]

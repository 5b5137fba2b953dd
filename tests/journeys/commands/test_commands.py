"""`time`, `test` and `convert`: commands that users of Caffe's tools know."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nets.files.solverstate import read_solverstate
from nets.files.weights import read_weights
from runtime.cli.main import main
from tests.helpers.support import configure, train


def test_time_prints_every_layer_and_the_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "single")
    assert main(["time", "--iterations", "1", "--set", "train.batch=4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "LeNet, batch 4, on cpu: 1 iterations"
    names = [line.split()[0] for line in lines[2:-3]]
    assert names == ["conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2", "loss", "sum"]
    assert lines[-3].startswith("parameters 1.7 MB, activations ")
    assert re.match(
        (
            r"memory of a training pass: arrays \S+ MB \(\S+ MB if none shared a place\), "
            r"scratch \S+ MB"
        ),
        lines[-2],
    )
    assert re.fullmatch(
        r"data of a batch, with one thread: reading and decoding \d+\.\d{3} ms, transform and "
        r"augmentation \d+\.\d{3} ms; a run with one process reads with \d+ threads?",
        lines[-1],
    )


def test_time_shows_the_damaged_sample_instead_of_the_time_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "single")
    for name in ("0.png", "1.png"):
        Image.new("L", (28, 28)).save(name)
    Path("1.png").write_bytes(b"no image")
    Path("list.txt").write_text("0.png 0\n1.png 1\n")
    data = '{format="images",source="list.txt",color="gray"}'
    settings = ["--set", f"train.data.train={data}", "--set", "train.batch=2"]
    assert main(["time", "--iterations", "1", *settings]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("data: not timed: ")
    assert "1.png: damaged or not an image" in last


def test_test_gives_the_scores_of_the_run_that_wrote_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = configure(tmp_path, "single", iterations=25, test=True)
    run = train(cluster)
    monkeypatch.chdir(tmp_path)
    assert main(["test", run.journal.of("checkpoint")[-1]["file"]]) == 0
    found = re.search(r"accuracy (\S+) on 359 images", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) == pytest.approx(run.journal.of("test")[-1]["accuracy"], abs=1e-4)


def test_real_weights_of_caffe_have_the_same_scores_as_in_caffe(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    mnist = shared_data / "mnist"
    Path("cluster.toml").write_text(
        "[train]\nsolver = 's.prototxt'\n[train.data]\n"
        f"test = {{ format = 'idx', images = '{mnist}/t10k-images-idx3-ubyte.gz', "
        f"labels = '{mnist}/t10k-labels-idx1-ubyte.gz' }}\n"
    )
    Path("s.prototxt").write_text('base_lr: 0.01 lr_policy: "fixed" max_iter: 1 test_iter: 10')
    assert (
        main(["test", str(shared_data / "caffe" / "weights" / "lenet_iter_10000.caffemodel")]) == 0
    )
    assert "accuracy 0.9900 on 1000 images" in capsys.readouterr().out


def test_convert_takes_weights_there_and_back(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shared_data / "caffe" / "weights" / "lenet_iter_10000.caffemodel"
    names = [tmp_path / "a.safetensors", tmp_path / "b.caffemodel.h5", tmp_path / "c.caffemodel"]
    for step in zip([source, *names], names, strict=False):
        assert main(["convert", *map(str, step)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"{names[-1]}: 4 layers: conv1, conv2, ip1, ip2"
    )
    first = read_weights(source)
    last = read_weights(names[-1])
    for layer, blobs in first.items():
        for expected, found in zip(blobs, last[layer], strict=True):
            np.testing.assert_array_equal(found, expected)


def test_convert_makes_an_lmdb_that_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "format=digits,split=train", "digits_lmdb"]) == 0
    cluster = configure(tmp_path, "single", iterations=3)
    plain = train(cluster)
    text = cluster.read_text().replace(
        'format = "digits", split = "train"', ('format = "lmdb", source = "digits_lmdb"')
    )
    cluster.write_text(text)
    assert train(cluster).losses() == plain.losses()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["convert", "nothing.caffemodel", "a.safetensors"], "nothing.caffemodel: no such file"),
        (["test", "nothing.safetensors"], "nothing.safetensors: no such"),
        (
            ["time", "--set", "train.net=lenett"],
            ("--set train.net=lenett: train.net: lenett: no such file"),
        ),
    ],
)
def test_mistakes_are_reported_in_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "single", test=True)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(expected)


def test_training_can_start_from_caffes_weights(shared_data: Path, tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=2, iterations=1)
    weights = shared_data / "caffe" / "weights" / "lenet_iter_10000.caffemodel"
    cluster.write_text(
        cluster.read_text().replace("[train]\n", f"[train]\nweights = '{weights}'\n", 1)
    )
    # from scratch the loss is 2.3; the digits here differ a little from MNIST's
    assert train(cluster).losses()[0] < 2.0


def test_devices_that_match_no_actor_or_do_not_exist_are_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configure(tmp_path, "sync", workers=2)
    assert main(["check", "--set", 'train.devices={"worker-*"="cuda:0"}']) == 2
    found = capsys.readouterr().err
    assert (
        "'worker-*' fits no actor; the actors that compute are coordinator, conv_model, fc_server"
    ) in found
    assert main(["check", "--set", 'train.devices={"conv-*"="gpu"}']) == 2
    assert (
        "found 'gpu' (string), expected 'cpu', 'cuda:N', 'emulated' or"
    ) in capsys.readouterr().err


def test_a_snapshot_of_caffe_is_resumed_and_taken_back(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    caffe = shared_data / "caffe"
    cifar = shared_data / "cifar10"
    cluster = configure(tmp_path, "sync", workers=2, iterations=4003)
    net = caffe / "models" / "cifar10_quick" / "cifar10_quick_train_test.prototxt"
    mean = tmp_path / "mean.binaryproto"
    mean.symlink_to(caffe / "means" / "cifar10_mean.binaryproto")
    Path("net.prototxt").write_text(
        net.read_text().replace("examples/cifar10/mean.binaryproto", str(mean))
    )
    cluster.write_text(
        "[train]\nnet = 'net.prototxt'\nsolver = 'solver.prototxt'\nbase_lr = 0.0001\n"
        f"[train.data]\ntrain = {{ format = 'cifar10', files = "
        f"['{cifar}/test_batch_1000.bin.gz'] }}\n"
        "[train.strategy]\npreset = 'sync'\nworkers = 2\n"
    )
    files = [
        caffe / "weights" / f"cifar10_quick_iter_4000.{kind}"
        for kind in ("caffemodel", "solverstate")
    ]
    assert main(["convert", str(files[0]), "c.safetensors", "--state", str(files[1])]) == 0
    cluster.write_text(
        cluster.read_text().replace("[train]\n", "[train]\nresume = 'c.safetensors'\n", 1)
    )
    run = train(cluster)
    assert len(run.losses()) == 3
    # from scratch the loss is 2.3; the 1000 test images give 0.93
    assert all(0.3 < loss < 1.5 for loss in run.losses())
    saved = run.journal.of("checkpoint")[-1]["file"]
    assert main(["convert", saved, "d.caffemodel", "--state", "d.solverstate"]) == 0
    weights = read_weights(Path("d.caffemodel"))
    np.testing.assert_array_equal(weights["conv1"][0], run.arrays["conv1.0"])
    assert read_solverstate(Path("d.solverstate")).iteration == 4003

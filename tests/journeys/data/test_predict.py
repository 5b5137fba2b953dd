"""`predict` and `test --top --confusion` as a user types them, with nets that were just trained."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nets import load_net
from nets.data import open_source
from nets.files.binary import write_message
from nets.files.blobs import from_array
from nets.files.mean import write_mean
from nets.predict import Given, Predictor
from runtime.cli.main import main
from tests.helpers.support import (
    configure,
    environment,
    events,
    run_directory,
    run_up,
    runtime_command,
    train,
)

Said = Callable[[], list[str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of LeNet after 25 iterations on the digits."""
    folder = tmp_path_factory.mktemp("trained")
    run = train(configure(folder, "single", iterations=25, test=True))
    shutil.move(folder / run.journal.of("checkpoint")[-1]["file"], folder / "digits.safetensors")
    return folder / "digits.safetensors"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first 40 digits of the test set as files."""
    folder = tmp_path_factory.mktemp("pictures")
    images, labels = open_source({"format": "digits", "split": "test"}, Path()).read(np.arange(40))
    for at, (image, label) in enumerate(zip(images, labels, strict=True)):
        Image.fromarray(image[0]).save(folder / f"{at:02d}-{label}.png")
    return folder


@pytest.mark.slow
def test_the_digits_that_ship_are_recognised_from_their_files_by_a_net_just_trained(
    tmp_path: Path, pictures: Path
) -> None:
    """Follow docs/predict.md: `up`, then `predict` with only the checkpoint."""
    (tmp_path / "cluster.toml").write_text(
        "[train]\nmax_iter = 100\n[train.strategy]\npreset = 'single'\n"
    )
    ended = run_up(tmp_path / "cluster.toml")
    assert ended.returncode == 0, ended.stderr
    directory = run_directory(tmp_path / "cluster.toml")
    file = directory / events(directory, "checkpoint")[-1]["file"]
    found = subprocess.run(
        runtime_command("predict", file, pictures, "--top", "1", "--json"),
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    told = [json.loads(line) for line in found.stdout.splitlines()]
    right = [Path(each["image"]).stem[-1] == each["classes"][0]["name"] for each in told]
    assert len(right) == 40
    assert sum(right) >= 36


def test_predictions_of_a_source_are_right_as_often_as_in_the_runs_test(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            ["predict", str(trained), "--data", "format=digits,split=test", "--top", "2", "--json"]
        )
        == 0
    )
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    _, labels = open_source({"format": "digits", "split": "test"}, Path()).read(np.arange(359))
    right = np.mean(
        [each["classes"][0]["number"] == label for each, label in zip(told, labels, strict=True)]
    )
    assert [each["image"] for each in told[:2]] == ["digits 0", "digits 1"]
    assert (
        main(
            [
                "test",
                str(trained),
                str(trained.parent / "cluster.toml"),
                "--json",
                "--top",
                "2",
                "--confusion",
            ]
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["scores"]["accuracy"] == pytest.approx(right)
    confusion = np.array(said["confusion"])
    assert (confusion.sum(1) == np.bincount(labels)).all()
    assert np.trace(confusion) / 359 == pytest.approx(right)
    among = [
        label in [kind["number"] for kind in each["classes"]]
        for each, label in zip(told, labels, strict=True)
    ]
    assert said["top"] == {"k": 2, "accuracy": pytest.approx(np.mean(among)), "labels": 359}
    assert said["classes"] == list("0123456789")


def test_the_best_classes_are_printed_in_lines_and_files_other_than_images_are_named(
    trained: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    Image.open(pictures / "00-4.png").resize((61, 44)).save(tmp_path / "large.png")
    names = [str(tmp_path / name) for name in ("broken.png", "large.png")]
    assert main(["predict", str(trained), *names, "--top", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{names[0]}: damaged or not an image")
    assert lines[1] == names[1]
    assert lines[2].split()[1] == "4"
    assert len(lines) == 4


def test_the_name_of_an_image_has_one_line_even_with_a_line_break(
    trained: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(pictures / "00-4.png", tmp_path / "a\nb.png")
    (tmp_path / "c\nd.png").write_bytes(b"no image")
    assert main(["predict", str(trained), str(tmp_path), "--top", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}/a\\nb.png"
    assert lines[2].startswith(f"{tmp_path}/c\\nd.png: damaged or not an image")
    assert len(lines) == 3


@pytest.mark.parametrize("longer", [False, True])
def test_a_reader_of_a_pipe_that_closes_early_is_not_a_mistake(
    trained: Path, pictures: Path, longer: bool
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    source = ["--data", "format=digits,split=test"] if longer else [pictures / "00-4.png"]
    command = runtime_command("predict", trained, *source)
    buffered = {**environment(), "PYTHONUNBUFFERED": ""}
    ended = subprocess.run(
        command, env=buffered, stdout=writes, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writes)
    # the exit code that the shell reports after SIGPIPE
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_table_shows_which_class_is_taken_for_which(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", str(trained), str(trained.parent / "cluster.toml"), "--confusion"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(
        at for at, line in enumerate(lines) if line.split() == ["label", *"0123456789", "found"]
    )
    counts = [list(map(int, line.split()[1:-1])) for line in lines[at + 1 :]]
    assert np.sum(counts) == 359
    assert len(counts) == 10
    assert lines[at - 1].startswith("top-1 accuracy ")


def test_of_many_classes_the_worst_pairs_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = configure(tmp_path, "single", iterations=2)
    net = load_net("lenet").path.read_text()
    for end in (" ", "\n"):
        net = net.replace(f"num_output: 10{end}", f"num_output: 25{end}")
    Path("lenet.prototxt").write_text(net)
    data = 'train = { format = "synthetic", shape = [1, 28, 28], classes = 25, size = 200 }'
    both = f"{data}\n{data.replace('train', 'test', 1)}"
    cluster.write_text(
        cluster.read_text().replace(('train = { format = "digits", split = "train" }'), both)
    )
    run = train(cluster)
    assert (
        main(["test", run.journal.of("checkpoint")[-1]["file"], "--confusion", "--top", "5"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("25 classes; the "))
    assert all(" taken for " in line for line in lines[at + 1 :])
    assert 0 < len(lines) - at - 1 <= 20


def test_names_order_mean_and_crop_come_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for at in range(4):
            pixels = random.integers(0, 256, (10, 12, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "set" / name / f"{at}.png")
    mean = random.random((3, 10, 12)).astype("f4") * 255
    write_mean(tmp_path / "mean.binaryproto", mean)
    (tmp_path / "net.prototxt").write_text("""
        layer { name: "in" type: "Data" top: "data" top: "label" data_param { batch_size: 4 }
          transform_param { crop_size: 8 mirror: true scale: 0.01 mean_file: "mean.binaryproto" } }
        layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
          convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
        layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
          inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }""")
    cluster = configure(tmp_path, "single", iterations=2, batch=4)
    text = cluster.read_text().replace(
        'format = "digits", split = "train"', 'format = "images", source = "set"'
    )
    cluster.write_text(text.replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1))
    run = train(cluster)
    found = Predictor.load(run.journal.of("checkpoint")[-1]["file"])
    said = found.deployment
    assert (said.shape, said.order, found.classes) == ((3, 10, 12), "bgr", ("cat", "dog"))
    assert (said.transform.crop, said.transform.mirror) == (8, False)
    assert said.transform.mean_image is not None
    assert (said.transform.mean_image == mean).all()
    (tmp_path / "names.txt").write_text("Kater\nHund\n\n")
    for value, expected in (("'names.txt'", ("Kater", "Hund")), ('["a b", "c"]', ("a b", "c"))):
        more = f"[train.data]\nclasses = {value}\norder = 'rgb'\n"
        named = text.replace("[train]\n", '[train]\nnet = "net.prototxt"\n', 1)
        cluster.write_text(named.replace("[train.data]\n", more, 1))
        run = train(cluster)
        again = Predictor.load(run.journal.of("checkpoint")[-1]["file"])
        assert (again.classes, again.deployment.order) == (expected, "rgb")
    assert main(["check", "--set", "train.data.classes=['a']"]) == 2


def test_every_preset_stores_the_same_description_of_its_net(tmp_path: Path, trained: Path) -> None:
    run = train(configure(tmp_path, "sync", workers=2, iterations=2, test=True))
    found = Predictor.load(tmp_path / run.journal.of("checkpoint")[-1]["file"])
    assert found.deployment.to_text() == Predictor.load(trained).deployment.to_text()


def test_caffes_weights_are_used_with_the_given_options(
    trained: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("w.caffemodel", "w.h5"):
        file = str(tmp_path / name)
        assert main(["convert", str(trained), file, "--net", "lenet"]) == 0
        assert main(["predict", file, str(pictures)]) == 2
        assert "the file does not name its net: give the net (--net" in capsys.readouterr().err
        (tmp_path / "names.txt").write_text("\n".join(f"digit {at}" for at in range(10)))
        given = [
            "--net",
            "lenet",
            "--size",
            "28x28",
            "--classes",
            str(tmp_path / "names.txt"),
            "--json",
            "--top",
            "1",
        ]
        assert main(["predict", file, str(pictures), *given]) == 0
        theirs = [json.loads(line)["classes"][0] for line in capsys.readouterr().out.splitlines()]
        ours = [each.classes[0] for each in Predictor.load(trained).files([pictures], top=1)]
        assert [each["name"] for each in theirs] == [f"digit {each.number}" for each in ours]
        assert [each["score"] for each in theirs] == [
            pytest.approx(each.score, abs=1e-6) for each in ours
        ]


def test_a_mean_file_and_numbers_may_be_given(trained: Path, tmp_path: Path) -> None:
    from nets.predict.given import mean_given

    write_message(tmp_path / "m.binaryproto", from_array(np.full((1, 28, 28), 9, np.float32)))
    images = np.random.default_rng(1).integers(0, 256, (2, 1, 28, 28), np.uint8)
    by_file = Predictor.load(trained, Given(mean=mean_given(str(tmp_path / "m.binaryproto"))))
    by_number = Predictor.load(trained, Given(mean=mean_given("9")))
    assert np.abs(by_file.scores(images) - by_number.scores(images)).max() < 1e-6
    assert mean_given("104, 117,123") == (104.0, 117.0, 123.0)


def test_a_file_of_classes_is_csv_or_json(
    trained: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    first = min(pictures.iterdir())
    words = ["predict", str(trained), str(first), str(tmp_path / "broken.png"), "--top", "2"]
    assert main([*words, "--output", str(tmp_path / "found.csv")]) == 1
    assert capsys.readouterr().out == f"wrote {tmp_path / 'found.csv'}\n"
    rows = list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines()))
    assert [(Path(row["image"]).name, row["rank"]) for row in rows] == [
        (first.name, "1"), (first.name, "2"), ("broken.png", "")
    ]  # fmt: skip
    assert rows[2]["error"]
    assert main([*words, "--output", str(tmp_path / "found.json")]) == 1
    capsys.readouterr()
    assert main([*words, "--json"]) == 1
    assert capsys.readouterr().out == (tmp_path / "found.json").read_text()
    best = json.loads((tmp_path / "found.json").read_text().splitlines()[0])["classes"][0]
    assert (rows[0]["name"], float(rows[0]["score"])) == (
        best["name"], pytest.approx(best["score"])
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--output", "found.txt"], "--output: found found.txt, expected a file that ends with"),
        (["--output", "a.csv", "--json"], "--output: found a.csv and --json, expected a file"),
        (
            ["--output", "missing/a.csv"],
            "missing/a.csv: cannot be written: No such file or directory",
        ),
    ],
)
def test_a_file_of_classes_that_cannot_be_made_is_reported(
    trained: Path, pictures: Path, more: list[str], expected: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(trained), str(pictures), *more]) in (1, 2)
    assert capsys.readouterr().err.startswith(expected)


def test_the_samples_of_a_source_of_files_have_the_names_of_their_files(
    trained: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = sorted(path.name for path in pictures.iterdir())[:3]
    (tmp_path / "list.txt").write_text("".join(f"{name} 0\n" for name in names))
    source = f"format=images,source={tmp_path / 'list.txt'},root_folder={pictures},color=gray"
    assert main(["predict", str(trained), "--data", source, "--top", "1", "--json"]) == 0
    told = [json.loads(line)["image"] for line in capsys.readouterr().out.splitlines()]
    assert told == [str(pictures / name) for name in names]


def test_the_data_that_the_net_names_are_classified(
    trained: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    names = sorted(path.name for path in pictures.iterdir())[:2]
    (tmp_path / "list.txt").write_text("".join(f"{name} 0\n" for name in names))
    text = load_net("lenet").path.read_text()
    layers = text[text.index('layer {\n  name: "conv1"') :]
    data = f"""layer {{ name: "mnist" type: "ImageData" top: "data" top: "label"
      transform_param {{ scale: 0.00390625 }} include {{ phase: TEST }}
      image_data_param {{ source: "list.txt" root_folder: "{pictures}/" batch_size: 2 is_color: false }} }}
    """
    (tmp_path / "own.prototxt").write_text(data + layers)
    monkeypatch.chdir(tmp_path)
    words = ["predict", str(trained), "--data", "format=net", "--json"]
    assert main([*words, "--net", "own.prototxt", "--size", "28x28"]) == 0
    told = [json.loads(line)["image"] for line in capsys.readouterr().out.splitlines()]
    assert told == [str(pictures / name) for name in names]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "--data format=net: found no net, expected one with data layers: --net\n"
    )


def test_an_onnx_file_of_a_checkpoint_needs_no_net(trained: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason=("needs onnxruntime: pip install -e '.[onnx-reference]'")
    )
    assert main(["convert", str(trained), str(tmp_path / "digits.onnx")]) == 0
    theirs = onnxruntime.InferenceSession(str(tmp_path / "digits.onnx"))
    images = np.random.default_rng(1).integers(0, 256, (5, 1, 28, 28), np.uint8)
    (found,) = theirs.run(None, {"data": images.astype("f4") / 256})
    assert np.abs(found - Predictor.load(trained).scores(images)).max() < 1e-4
    facts = theirs.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list("0123456789")
    steps = json.loads(facts["preprocessing"])
    assert [step["step"] for step in steps] == ["decode", "resize", "normalise"]
    assert (steps[0]["planes"], steps[1]["height"], steps[2]["scale"]) == ("gray", 28, 1 / 256)


def test_without_the_package_for_onnx_the_error_names_it(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["convert", str(trained), str(tmp_path / "x.onnx")]) == 2
    text = "needs the package 'onnx', which is not installed: pip install \"convoy-runtime[onnx]\""
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none.safetensors", "x.png"], "none.safetensors: no such checkpoint"),
        (["W"], "predict: found neither images nor --data, expected one of the two"),
        (["W", "x.png", "--data", "format=digits"], "predict: found images and --data"),
        (["W", "x.png", "--top", "0"], "--top, --batch: found 0, 64"),
        (["W", "x.png", "--size", "28"], "--size: found '28', expected HEIGHTxWIDTH"),
        (
            ["W", "x.png", "--size", "99999x99999"],
            ("size: new_height, new_width: found 99999, 99999"),
        ),
        (["W", "x.png", "--crop", "-1"], "crop: found -1, expected an integer >= 0"),
        (["W", "x.png", "--crop", "99"], "crop_size: found 99, expected at most 28"),
        (["W", "x.png", "--order", "xyz"], "--order: found 'xyz', expected one of bgr, rgb, gray"),
        (["W", "x.png", "--net", "lenett"], "lenett: no such file"),
        (["W", "x.png", "--mean", "1,2,x"], "1,2,x: no such file"),
        (["W", "x.png", "--classes", "nobody.txt"], "nobody.txt: cannot be read"),
        (["W", "--data", "format=digit"], "format: found 'digit'"),
        (["W", "--data", "format=synthetic,size=x"], "size: found 'x', expected an integer"),
        (
            ["W", "--data", "format=synthetic,shape=3+8+8,size=1"],
            "images: found shape (1, 3, 8, 8), expected (N, 1, 28, 28)",
        ),
    ],
)
def test_mistakes_are_reported_in_words(
    trained: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(["predict", *(str(trained) if word == "W" else word for word in arguments)]) == 2
    assert expected in capsys.readouterr().err

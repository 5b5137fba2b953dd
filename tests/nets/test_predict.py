"""Predictions with a trained net: the description in its checkpoint, the preparation of images, and
the output."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nets import CheckpointError, NetError, load_net
from nets.data import Transform
from nets.files import checkpoint
from nets.files.weights import write_weights
from nets.graph.graph import Net
from nets.predict import Deployment, Given, Predictor, Seen, Tally, scored
from nets.predict.deployment import KEY
from ops import get_backend
from tests.nets.support import images_and_labels, lenet, some_values, spec_of

DIGITS = tuple("0123456789")
SEEN = Seen((1, 28, 28), "gray", DIGITS, {"data": (1, 28, 28), "label": ()})
ZERO = {"deviation": [0.0]}
SHORT = {"mean_image": {"shape": [2], "float32": base64.b64encode(b"1").decode()}}
TWICE = """
layer { name: "in" type: "Data" top: "data" top: "label" transform_param { crop_size: 6 scale: 0.5 mean_value: 3
  mean_value: 5 mean_value: 7 } data_param { batch_size: 4 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3
  weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "side" type: "InnerProduct" bottom: "conv" top: "side" inner_product_param { num_output: 3 } }
layer { name: "loss1" type: "SoftmaxWithLoss" bottom: "side" bottom: "label" top: "loss1" loss_weight: 0.3 }
layer { name: "main" type: "InnerProduct" bottom: "conv" top: "main" inner_product_param { num_output: 3
  weight_filler { type: "xavier" } } }
layer { name: "top2" type: "Accuracy" bottom: "main" bottom: "label" top: "top2" accuracy_param { top_k: 2 } }
layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "main" bottom: "label" top: "loss2" }
"""


def deployment() -> Deployment:
    spec = load_net("lenet").for_phase("TEST")
    return Deployment.of(spec, SEEN, Transform.of_net(spec, "TEST"))


def saved(path, weights, said: Deployment):
    arrays = {
        f"{layer}.{at}": blob for layer, blobs in weights.items() for at, blob in enumerate(blobs)
    }
    checkpoint.save(path, arrays, {"net": "x", KEY: said.to_text()})
    return path


def softmax(scores):
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_the_scores_are_the_softmax_of_the_input_of_the_loss_for_any_number_of_images(tmp_path):
    net = lenet("TEST", batch=7)
    weights = some_values(net)
    images = np.random.default_rng(1).integers(0, 256, (7, 1, 28, 28), np.uint8)
    net.run({"data": images.astype("f4") / 256, "label": np.zeros(7)}, weights)
    expected = softmax(np.asarray(net.blob("ip2")))
    predictor = Predictor.load(saved(tmp_path / "w.safetensors", weights, deployment()), batch=3)
    assert np.abs(predictor.scores(images) - expected).max() < 1e-5
    assert predictor.scores(images[:0]).shape == (0, 10)
    (first, *_) = predictor.classify([images[0, :, :, :]], top=3)
    order = np.argsort(-expected[0])[:3]
    assert [(each.number, each.name) for each in first.classes] == [(k, DIGITS[k]) for k in order]


def test_a_net_for_prediction_has_only_the_layers_that_its_last_loss_depends_on(tmp_path):
    spec = spec_of(tmp_path, TWICE).for_phase("TEST")
    said = Deployment.of(
        spec,
        Seen((3, 8, 9), "bgr", (), {"data": (3, 6, 6), "label": ()}),
        Transform.of_net(spec, "TEST"),
    )
    assert [layer.proto.name for layer in said.net.layers] == [
        "data",
        "conv",
        "relu",
        "main",
        "prob",
    ]
    assert scored(spec).scores == "main"
    assert said.output == "prob"


def test_an_image_of_any_size_is_resized_cropped_and_prepared_as_in_training(tmp_path):
    """Every step computed a second time: Pillow's pixels, blue first, bilinear between pixel
    centres, the middle, minus the mean, times the scale."""
    spec = spec_of(tmp_path, TWICE).for_phase("TEST")
    seen = Seen((3, 8, 9), "bgr", ("a", "b", "c"), {"data": (3, 6, 6), "label": ()})
    said = Deployment.of(spec, seen, Transform.of_net(spec, "TEST"))
    whole = Net(said.net, "TEST", ops=get_backend(), batch=1)
    weights = some_values(whole)
    predictor = Predictor.load(saved(tmp_path / "w.safetensors", weights, said))
    pixels = np.random.default_rng(3).integers(0, 256, (11, 17, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    bgr = pixels[:, :, ::-1].astype(np.float64)

    def at(new, old):
        place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.floor(place).astype(int)
        return low, np.minimum(low + 1, old - 1), place - low

    (t, b, down), (left, right, across) = at(8, 11), at(9, 17)
    down = down[:, None, None]
    across = across[None, :, None]
    rows = bgr[t] * (1 - down) + bgr[b] * down
    small = np.rint(rows[:, left] * (1 - across) + rows[:, right] * across)
    ready = (small[1:7, 1:7] - (3, 5, 7)) * 0.5
    whole.run({"data": ready.transpose(2, 0, 1)[None].astype("f4")}, weights)
    (found,) = predictor.files([tmp_path / "x.png"])
    expected = np.asarray(whole.blob("prob"))[0]
    for each in found.classes:
        assert each.score == pytest.approx(expected["abc".index(each.name)], rel=1e-3)
    assert [each.number for each in found.classes] == list(np.argsort(-expected))


@pytest.mark.parametrize(
    ("order", "planes"), [("rgb", slice(None)), ("bgr", slice(None, None, -1))]
)
def test_planes_come_in_the_order_that_training_saw(tmp_path, order, planes):
    from nets.predict import image_files

    pixels = np.random.default_rng(3).integers(0, 256, (4, 5, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    found = image_files.image(tmp_path / "x.png", (3, 4, 5), order)
    assert (found == pixels[:, :, planes].transpose(2, 0, 1)).all()


def test_a_colour_image_is_made_grey_for_a_net_that_reads_grey_ones(tmp_path):
    weights = some_values(lenet("TEST", batch=1))
    predictor = Predictor.load(saved(tmp_path / "w.safetensors", weights, deployment()))
    pixels = np.random.default_rng(3).integers(0, 256, (28, 28, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "c.png")
    Image.fromarray(pixels).convert("L").save(tmp_path / "g.png")
    colour, grey = predictor.files([tmp_path / "c.png", tmp_path / "g.png"])
    assert colour.classes == grey.classes


def test_folders_are_searched_and_unreadable_files_are_named_between_the_others(tmp_path):
    weights = some_values(lenet("TEST", batch=1))
    predictor = Predictor.load(saved(tmp_path / "w.safetensors", weights, deployment()), batch=2)
    for name in ("a/1.png", "a/b/2.png", "3.png"):
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 9), 40).save(tmp_path / "f" / name)
    (tmp_path / "f" / "a" / "0.jpg").write_bytes(b"\xff\xd8 no image")
    (tmp_path / "empty").mkdir()
    found = list(predictor.files([tmp_path / "f", tmp_path / "empty", tmp_path / "none.png"]))
    assert [each.name.removeprefix(f"{tmp_path}/") for each in found] == [
        "f/3.png", "f/a/0.jpg", "f/a/1.png", "f/a/b/2.png", "empty", "none.png",
    ]  # fmt: skip
    assert [bool(each.error) for each in found] == [False, True, False, False, True, True]
    assert found[1].error.startswith("damaged JPEG image")
    assert found[4].error.startswith("found a folder without images")
    assert found[5].error == "no such file"


def test_hidden_files_below_a_folder_are_passed_over_and_counted_and_a_named_one_is_read(
    tmp_path, caplog
):
    weights = some_values(lenet("TEST", batch=1))
    predictor = Predictor.load(saved(tmp_path / "w.safetensors", weights, deployment()), batch=2)
    for name in ("3.png", ".ipynb_checkpoints/3.png", "__MACOSX/3.png", ".cache/3.png"):
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 9), 40).save(tmp_path / "f" / name)
    (tmp_path / "f" / "._3.png").write_bytes(b"\0\5\26\7")
    found = list(predictor.files([tmp_path / "f"]))
    assert [(each.name, each.error) for each in found] == [(f"{tmp_path}/f/3.png", "")]
    assert "hidden files and folders: 3 (._3.png, .cache, .ipynb_checkpoints)" in caplog.text
    assert "(__MACOSX)" in caplog.text
    told = list[str]()
    named = [tmp_path / "f" / "._3.png", tmp_path / "f" / ".cache"]
    first, second = predictor.files(named, told=told.append)
    assert first.error
    assert (second.name, second.error, told) == (f"{tmp_path}/f/.cache/3.png", "", [])


def test_the_description_in_a_checkpoint_is_read_as_it_was_written():
    mean = np.random.default_rng(1).random((1, 28, 28)).astype("f4")
    said = replace(
        deployment(), transform=Transform(0.5, (), 20, mean_image=mean), classes=("nought", "ünö")
    )
    found = Deployment.from_text(said.to_text(), "x.safetensors")
    assert (found.output, found.shape, found.order, found.classes) == (
        "prob",
        (1, 28, 28),
        "gray",
        ("nought", "ünö"),
    )
    assert (found.transform.scale, found.transform.crop) == (0.5, 20)
    assert (found.transform.mean_image == mean).all()
    assert found.to_text() == said.to_text()


def test_a_deviation_makes_a_description_that_earlier_versions_refuse():
    plain = deployment()
    divided = replace(plain, transform=Transform(mean=(10.0,), deviation=(4.0,)))
    assert json.loads(plain.to_text())["version"] == 1
    assert json.loads(divided.to_text())["version"] == 2
    found = Deployment.from_text(divided.to_text(), "x.safetensors")
    assert found.transform.deviation == (4.0,)
    assert found.to_text() == divided.to_text()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda said: "no json", "x.st: 'deployment': not a JSON object"),
        (lambda said: "[1]", "x.st: 'deployment': not a JSON object"),
        (lambda said: "[" * 100_000, "x.st: 'deployment': not a JSON object"),
        (lambda said: json.dumps({**said, "version": 9}), ("x.st: 'deployment': found version " "9, expected 1")),
        (lambda said: json.dumps({**said, "order": "cmyk"}), ("x.st: 'deployment': damaged: " "ValueError: order")),
        (lambda said: json.dumps({**said, "orientation": "up"}), ("x.st: 'deployment': damaged: " "ValueError: orientation")),
        (lambda said: json.dumps({key: said[key] for key in said if key != "net"}), "damaged: KeyError: 'net'"),
        (lambda said: json.dumps({**said, "net": "layer {"}), "the net in x.st:1"),
        (lambda said: json.dumps({**said, "transform": {"scale": "much"}}), "damaged: "),
        (lambda said: json.dumps(said | {"transform": said["transform"] | SHORT}), "damaged: ValueError"),
        (lambda said: json.dumps(said | {"transform": said["transform"] | ZERO}), "damaged: ValueError: deviation"),
    ],
)  # fmt: skip
def test_a_description_that_convoy_did_not_write_is_refused_in_words(change, expected):
    with pytest.raises((CheckpointError, NetError)) as error:
        Deployment.from_text(change(json.loads(deployment().to_text())), "x.st")
    assert expected in str(error.value)


def test_a_description_of_an_earlier_version_means_that_photographs_are_turned():
    said = json.loads(deployment().to_text())
    assert said.pop("orientation") == "exif"
    assert Deployment.from_text(json.dumps(said), "x.st").orientation == "exif"


def test_weights_without_a_description_name_the_options_to_give(tmp_path):
    weights = some_values(lenet("TEST", batch=1))
    for name in ("w.safetensors", "w.caffemodel"):
        write_weights(tmp_path / name, weights, load_net("lenet").for_phase("TEST"))
        with pytest.raises(
            NetError,
            match=(rf"^{name}: the file does not name its net: " rf"give the net \(--net"),
        ):
            Predictor.load(tmp_path / name)
    with pytest.raises(
        NetError, match=("the net does not give the size of its images: give --size HEIGHTxWIDTH")
    ):
        mine = tmp_path / "mine.prototxt"
        mine.write_text(load_net("lenet").path.read_text())
        Predictor.load(tmp_path / "w.caffemodel", Given(net=load_net(mine)))
    assert Predictor.load(
        tmp_path / "w.caffemodel", Given(net=load_net("lenet"))
    ).deployment.shape == (1, 28, 28), "the zoo knows the size of MNIST's images"
    found = Predictor.load(
        tmp_path / "w.caffemodel", Given(net=load_net("lenet"), size=(28, 28), classes=DIGITS)
    )
    said = Predictor.load(saved(tmp_path / "s.safetensors", weights, deployment()))
    images, _ = images_and_labels(3)
    assert (found.scores(images) == said.scores(images)).all()
    assert found.deployment.order == "gray", (
        "the first layer's weights have one channel, so images are grey"
    )
    assert found.classes == DIGITS


def test_given_options_override_the_description_in_a_checkpoint(tmp_path):
    weights = some_values(lenet("TEST", batch=1))
    path = saved(tmp_path / "w.safetensors", weights, deployment())
    images, _ = images_and_labels(2)
    plain = Predictor.load(path)
    changed = Predictor.load(path, Given(scale=2 / 256, mean=(0.25,), classes=("x",)))
    assert np.abs(changed.scores(images) - plain.scores(2 * (images - 0.25))).max() < 1e-6
    assert changed.classes == ("x",)
    with pytest.raises(
        NetError, match=("order: found 'rgb', but the net reads images of 1 channel")
    ):
        Predictor.load(path, Given(order="rgb"))
    with pytest.raises(NetError, match="mean_value: found 3, expected 1"):
        Predictor.load(path, Given(mean=(1.0, 2.0, 3.0)))


def test_a_net_for_deployment_declares_the_size_of_its_images(tmp_path):
    text = ('input: "data" input_shape { dim: 10 dim: 3 dim: 6 dim: 6 }') + TWICE[
        TWICE.index('layer { name: "conv"') :
    ]
    text = (
        text[: text.index('layer { name: "side"')]
        + """
        layer { name: "main" type: "InnerProduct" bottom: "conv" top: "main" inner_product_param { num_output: 3 } }
        layer { name: "p" type: "Softmax" bottom: "main" top: "p" }"""
    )
    spec = spec_of(tmp_path, text)
    weights = some_values(Net(spec, "TEST", ops=get_backend(), batch=1))
    write_weights(tmp_path / "w.caffemodel", weights, spec.for_phase("TEST"))
    found = Predictor.load(tmp_path / "w.caffemodel", Given(net=spec))
    assert (found.deployment.shape, found.deployment.output) == ((3, 6, 6), "p")
    cropped = Predictor.load(tmp_path / "w.caffemodel", Given(net=spec, crop=6))
    assert cropped.deployment.shape == (3, 256, 256), "as Caffe's classify"
    for given in (Given(net=spec, size=(8, 9)), Given(net=spec, mean=np.zeros((3, 8, 9), "f4"))):
        larger = Predictor.load(tmp_path / "w.caffemodel", given).deployment
        assert (larger.shape, larger.transform.crop) == ((3, 8, 9), 6), (
            "images larger than the input are cropped"
        )


@pytest.mark.parametrize("shape", ["dim: 1 dim: 12", "dim: 1 dim: -1", "dim: 1 dim: 3 dim: 4"])
def test_a_net_that_is_written_for_one_image_takes_any_number_one_at_a_time(
    tmp_path, caplog, shape
):
    layers = """
        layer { name: "main" type: "InnerProduct" bottom: "data" top: "main"
          inner_product_param { num_output: 12 weight_filler { type: "xavier" } } }
        %s
        layer { name: "p" type: "Softmax" bottom: "%s" top: "p" }"""
    reshape = """layer { name: "cut" type: "Reshape" bottom: "main" top: "cut"
          reshape_param { shape { %s } } }"""
    start = 'input: "data" input_shape { dim: 1 dim: 3 dim: 6 dim: 6 }'
    spec = spec_of(tmp_path, start + layers % (reshape % shape, "cut"))
    weights = some_values(Net(spec, "TEST", ops=get_backend(), batch=1))
    write_weights(tmp_path / "w.caffemodel", weights, spec.for_phase("TEST"))
    found = Predictor.load(tmp_path / "w.caffemodel", Given(net=spec), batch=64)
    assert "computes one image at a time, since the net is written for one" in caplog.text
    images = np.random.default_rng(1).integers(0, 256, (5, 3, 6, 6), np.uint8)
    one_by_one = [found.scores(image[None])[0] for image in images]
    assert np.array_equal(found.scores(images), np.stack(one_by_one))
    if shape.count("dim") == 2:
        plain = spec_of(tmp_path, start + layers % ("", "main"))
        other = Predictor.load(tmp_path / "w.caffemodel", Given(net=plain), batch=64)
        assert np.abs(found.scores(images) - other.scores(images)).max() < 1e-6


def test_a_net_that_takes_no_number_of_images_is_refused_with_its_own_fault(tmp_path):
    spec = spec_of(
        tmp_path,
        """input: "data" input_shape { dim: 1 dim: 3 dim: 6 dim: 6 }
        layer { name: "cut" type: "Reshape" bottom: "data" top: "cut"
          reshape_param { shape { dim: 1 dim: 7 } } }""",
    )
    write_weights(tmp_path / "w.caffemodel", {"x": (np.zeros(1, "f4"),)})
    with pytest.raises(NetError, match="layer 'cut'"):
        Predictor.load(tmp_path / "w.caffemodel", Given(net=spec))


def test_a_net_that_reads_no_images_cannot_classify(tmp_path):
    spec = load_net("char_lstm")
    weights = some_values(Net(spec, "TEST", ops=get_backend()))
    write_weights(tmp_path / "w.safetensors", weights)
    with pytest.raises(NetError, match="the net reads sequences"):
        Predictor.load(tmp_path / "w.safetensors", Given(net=spec))


def test_weights_that_are_not_finite_are_refused_by_name(tmp_path):
    spec = load_net("lenet")
    weights = some_values(Net(spec, "TEST", ops=get_backend(), input_shape=(1, 28, 28)))
    weights["ip1"][1][3] = np.nan
    write_weights(tmp_path / "w.safetensors", weights)
    with pytest.raises(NetError, match=r"w\.safetensors: 'ip1': found numbers that are not finite"):
        Predictor.load(tmp_path / "w.safetensors", Given(net=spec, size=(28, 28)))


def test_a_negative_running_variance_is_refused_with_its_layer_channel_and_value(tmp_path):
    spec = load_net("resnet20")
    weights = some_values(Net(spec, "TEST", ops=get_backend(), input_shape=(3, 32, 32)))
    layer = next(proto.name for proto in spec.proto.layer if proto.type == "BatchNorm")
    _, variance, weight = weights[layer]
    weight[:] = 2.0
    given = Given(net=spec, size=(32, 32))
    write_weights(tmp_path / "good.safetensors", weights)
    Predictor.load(tmp_path / "good.safetensors", given)
    variance[2] = -0.5
    write_weights(tmp_path / "w.safetensors", weights)
    text = rf"w\.safetensors: layer '{layer}': found the running variance -0.25 of channel 2"
    with pytest.raises(NetError, match=text):
        Predictor.load(tmp_path / "w.safetensors", given)


def test_top_k_and_confusion_are_counted_as_one_by_one():
    random = np.random.default_rng(1)
    scores = random.random((200, 6))
    labels = random.integers(-1, 7, 200)
    tally = Tally(6, top=2)
    for part in (slice(0, 90), slice(90, 200)):
        tally.add(scores[part], labels[part])
    known = [(row, label) for row, label in zip(scores, labels, strict=True) if 0 <= label < 6]
    assert tally.images == len(known)
    assert tally.hits == sum(label in np.argsort(-row)[:2] for row, label in known)
    for label in range(6):
        for taken in range(6):
            assert tally.confusion[label, taken] == sum(
                a == label and row.argmax() == taken for row, a in known
            )
    assert tally.accuracy == pytest.approx(np.mean([row.argmax() == label for row, label in known]))
    worst = tally.worst(3)
    assert [images for *_, images in worst] == sorted(
        (tally.confusion - np.diag(np.diag(tally.confusion))).ravel()
    )[:-4:-1]
    assert all(tally.confusion[a, b] == images and a != b for a, b, images in worst)

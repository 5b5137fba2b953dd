"""Sources read the content of a file or report its mistakes. Batches contain every sample once per
epoch."""

import gzip
import hashlib
import itertools
import struct
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nets import DataError, PrototxtError
from nets.data import Batches, MemorySource, Transform, open_source
from nets.data.sources.digits import FILE, enlarge, read
from nets.definition.prototxt import Node, Where
from nets.schema import caffe_pb2 as caffe
from tests.nets.support import SHARED, needs_shared


def write_idx(path, array, magic=None):
    header = magic or bytes([0, 0, 8, array.ndim])
    path.write_bytes(header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


@pytest.fixture
def pair(tmp_path):
    images = np.arange(5 * 3 * 4, dtype=np.uint8).reshape(5, 3, 4)
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", np.array([0, 1, 2, 1, 0], np.uint8))
    return tmp_path, images


IDX = {"format": "idx", "images": "images", "labels": "labels"}


def test_the_digits_are_read_once_and_are_read_only():
    images, labels, _ = read(base_dir=Path())
    assert read(base_dir=Path())[0] is images
    for array in (images, labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_data_set_is_in_memory_once_while_a_reader_in_the_process_uses_it(pair):
    folder, images = pair
    first = open_source(IDX, folder)
    assert open_source(dict(IDX), folder) is first
    with pytest.raises(ValueError, match="read-only"):
        first.look(np.arange(1))[0][0] = 0
    write_idx(folder / "images", 255 - images)
    changed = open_source(IDX, folder)
    assert np.array_equal(changed.read(np.arange(5))[0][:, 0], 255 - images)
    gone = weakref.ref(first)
    del first
    assert gone() is None


def test_the_digits_are_the_file_that_was_published():
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == (
        "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
    )


def test_every_fifth_digit_is_for_testing(tmp_path):
    train = open_source({"format": "digits"}, tmp_path)
    test = open_source({"format": "digits", "split": "test"}, tmp_path)
    assert (len(train), len(test), train.shape, train.num_classes) == (1438, 359, (1, 28, 28), 10)
    rows = np.loadtxt(
        gzip.decompress(FILE.read_bytes()).decode().splitlines(), delimiter=",", dtype=int
    )
    assert np.array_equal(test.labels, rows[4::5, 64])
    assert train.images.dtype == np.uint8
    assert train.images.max() == 255


def test_enlarging_is_bilinear_between_pixel_centres():
    images = np.random.default_rng(0).random((2, 8, 8))
    expected = np.empty((2, 20, 20))
    for i in range(20):
        for j in range(20):
            y, x = (min(max((k + 0.5) * 8 / 20 - 0.5, 0.0), 7.0) for k in (i, j))
            y0 = min(int(y), 6)
            x0 = min(int(x), 6)
            fy = y - y0
            fx = x - x0
            top = images[:, y0, x0] * (1 - fx) + images[:, y0, x0 + 1] * fx
            bottom = images[:, y0 + 1, x0] * (1 - fx) + images[:, y0 + 1, x0 + 1] * fx
            expected[:, i, j] = top * (1 - fy) + bottom * fy
    np.testing.assert_allclose(enlarge(images, 20), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_give_their_images_and_labels(pair, zipped):
    directory, images = pair
    if zipped:
        for name in ("images", "labels"):
            (directory / name).write_bytes(gzip.compress((directory / name).read_bytes()))
    source = open_source(IDX, directory)
    assert (len(source), source.shape, source.num_classes) == (5, (1, 3, 4), 3)
    found, labels = source.read(np.array([4, 0]))
    assert np.array_equal(found[:, 0], images[[4, 0]])
    assert labels.tolist() == [0, 0]


def test_an_idx_file_cut_at_any_byte_is_refused_by_name(pair):
    directory, _ = pair
    data = (directory / "images").read_bytes()
    for end in range(len(data)):
        (directory / "images").write_bytes(data[:end])
        with pytest.raises(DataError, match=r"/images: .*(found|ends).*expected"):
            open_source(IDX, directory)


def test_a_gzipped_idx_file_cut_at_any_byte_is_refused_by_name(pair):
    directory, _ = pair
    data = gzip.compress((directory / "images").read_bytes())
    for end in range(len(data)):
        (directory / "images").write_bytes(data[:end])
        with pytest.raises(DataError, match=r"/images: "):
            open_source(IDX, directory)


def test_every_changed_header_byte_of_an_idx_file_is_refused(pair):
    directory, _ = pair
    data = (directory / "images").read_bytes()
    for at in range(16):
        broken = bytearray(data)
        broken[at] ^= 0x41
        (directory / "images").write_bytes(bytes(broken))
        with pytest.raises(DataError, match=r"/images"):
            open_source(IDX, directory)


def test_a_header_that_promises_terabytes_is_refused_without_reading_them(tmp_path):
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**16, 2**16)
    (tmp_path / "images").write_bytes(gzip.compress(header + bytes(10)))
    (tmp_path / "labels").write_bytes(b"")
    with pytest.raises(
        DataError,
        match=(r"found shape \(4294967295, 65536, 65536\), expected " r"at most \d+ bytes"),
    ):
        open_source(IDX, tmp_path)


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress])
def test_a_header_of_no_images_of_terabytes_is_refused(tmp_path, squeeze):
    (tmp_path / "images").write_bytes(
        squeeze(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1))
    )
    (tmp_path / "labels").write_bytes(b"")
    with pytest.raises(
        DataError,
        match=(r"found shape \(0, 4294967295, 4294967295\), " r"expected at most \d+ bytes"),
    ):
        open_source(IDX, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, ("format: found None, expected one of blank, cifar10, digits, hdf5, idx, " "" "images, " "lmdb, synthetic, text")),
        ({"format": "digit"},
         "format: found 'digit', expected one of blank, cifar10, digits, hdf5, idx, images, " "" "" "lmdb, synthetic, text "
         "(did you mean 'digits'?)"),
        ({"format": "digits", "splt": "x"}, "digits: splt: unknown key (did you mean 'split'?)"),
        ({"format": "digits", "split": 3}, "digits: split: found 3, expected a string"),
        ({"format": "digits", "split": "val"}, ("digits: split: found 'val', expected " "'train' " "or 'test'")),
        ({"format": "idx", "images": "a"}, "idx: labels: missing, expected a string"),
        ({"format": "synthetic", "shape": [1, 2]},
         "synthetic: shape: found [1, 2], expected three integers >= 1 (C, H, W)"),
        ({"format": "synthetic", "size": 0}, "synthetic: size: found 0, expected an integer >= 1"),
        ({"format": "synthetic", "classes": "2"}, ("synthetic: classes: found '2', expected " "" "" "an integer")),
    ],
)  # fmt: skip
def test_mistakes_in_a_source_are_one_readable_line(tmp_path, config, message):
    with pytest.raises(DataError) as caught:
        open_source(config, tmp_path)
    assert caught.value.problems == [message]


def test_files_that_do_not_fit_each_other_are_refused(pair):
    directory, _ = pair
    write_idx(directory / "labels", np.zeros(4, np.uint8))
    with pytest.raises(DataError, match=r"/images has 5 images but .*/labels has 4 labels"):
        open_source(IDX, directory)
    with pytest.raises(
        DataError, match=(r"images: found magic number 0000 08 03, expected " r"0000 08 01")
    ):
        open_source({**IDX, "labels": "images"}, directory)
    with pytest.raises(DataError, match="no such file"):
        open_source({**IDX, "labels": "absent"}, directory)


@needs_shared
def test_mnist_reads_whole():
    source = open_source(
        {
            "format": "idx",
            "images": "t10k-images-idx3-ubyte.gz",
            "labels": "t10k-labels-idx1-ubyte.gz",
        },
        SHARED / "mnist",
    )
    assert (len(source), source.shape, source.num_classes) == (10000, (1, 28, 28), 10)
    assert np.bincount(source.labels).tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]


def test_synthetic_images_share_their_patterns_between_training_and_test(tmp_path):
    options = {"format": "synthetic", "shape": [3, 8, 8], "classes": 4, "size": 40, "seed": 2}
    train, again, test = (open_source({**options, "sample": s}, tmp_path) for s in (0, 0, 1))
    assert np.array_equal(train.images, again.images)
    assert not np.array_equal(train.images, test.images)
    means = np.stack([train.images[train.labels == c].mean(0) for c in range(4)])
    distance = ((test.images[:, None] - means) ** 2).sum((2, 3, 4))
    assert np.array_equal(distance.argmin(1), test.labels)


def naive(image_CHW, top, left, crop, mirror, mean, scale):
    channels = image_CHW.shape[0]
    result = np.empty((channels, crop, crop))
    for c in range(channels):
        for i in range(crop):
            for j in range(crop):
                column = left + (crop - 1 - j if mirror else j)
                result[c, i, j] = (float(image_CHW[c, top + i, column]) - mean[c]) * scale
    return result


def test_in_test_the_crop_is_central_and_nothing_is_mirrored():
    images = np.random.default_rng(0).integers(0, 256, (3, 2, 9, 8), dtype=np.uint8)
    transform = Transform(scale=0.5, mean=(3.0, 7.0), crop=5, mirror=True)
    found = transform(images, np.arange(3), seed=0, train=False)
    expected = [naive(image, 2, 1, 5, False, (3, 7), 0.5) for image in images]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_in_training_every_crop_and_both_mirrorings_happen_and_are_exact():
    images = np.random.default_rng(0).integers(0, 256, (300, 2, 7, 6), dtype=np.uint8)
    transform = Transform(scale=0.5, mean=(4.0,), crop=5, mirror=True)
    found = transform(images, np.arange(300), seed=9, train=True)
    seen = set()
    for image, result in zip(images, found, strict=True):
        choices = [(top, left, m) for top in range(3) for left in range(2) for m in (False, True)]
        fits = [
            c
            for c in choices
            if np.allclose(naive(image, c[0], c[1], 5, c[2], (4, 4), 0.5), result)
        ]
        assert len(fits) == 1
        seen.add(fits[0])
    assert len(seen) == 12


def test_a_sample_is_transformed_the_same_for_every_reader():
    source = MemorySource(
        "x", np.random.default_rng(0).integers(0, 256, (50, 1, 9, 9), dtype=np.uint8), np.arange(50)
    )
    batches = Batches(source, Transform(crop=6, mirror=True), 20, shuffle=True, seed=4, train=True)
    whole = batches.read(3, 0, 20)
    parts = [batches.read(3, low, high) for low, high in ((0, 7), (7, 8), (8, 20))]
    for which in (0, 1):
        assert np.array_equal(np.concatenate([part[which] for part in parts]), whole[which])


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(1, 60), batch=st.integers(1, 70), workers=st.integers(1, 5), seed=st.integers(0, 9),
    shuffle=st.booleans(),
)  # fmt: skip
def test_every_sample_comes_exactly_once_per_epoch_whatever_the_workers(
    samples, batch, workers, seed, shuffle
):
    source = MemorySource("x", np.zeros((samples, 1, 1, 1), np.uint8), np.arange(samples))
    batches = Batches(source, Transform(), batch, shuffle=shuffle, seed=seed, train=True)
    cuts = np.linspace(0, batch, workers + 1).astype(int)
    tickets = -(-3 * samples // batch)
    order = np.concatenate(
        [
            batches.read(t, low, high)[1]
            for t in range(tickets)
            for low, high in itertools.pairwise(cuts)
        ]
    )
    for epoch in range(3):
        assert sorted(order[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mean_file": "absent"},
         "mean_file': found 'absent', but no such file exists here or next to the net"),
        ({"mean_file": "m", "mean_value": [3]}, ("mean_file': given together with 'mean_value', " "" "" "expected only one of the two")),
        ({"force_color": True, "force_gray": True},
         "force_gray': given together with 'force_color', expected only one of the two"),
        ({"mean_file": "m", "rgb": True}, "rgb': given together with 'mean_file', whose planes are blue, green, red: expected 'mean_value', in the order red, green, blue"),
        ({"deviation_value": [1, 0]}, "deviation_value': found 1, 0, expected finite numbers > 0"),
    ],
)  # fmt: skip
def test_transform_keys_that_cannot_be_met_are_refused_by_line(given, message):
    where = Where("n.prototxt", Node(3), "layer 'd'")
    with pytest.raises(PrototxtError) as caught:
        Transform.from_proto(caffe.TransformationParameter(**given), where)
    assert str(caught.value) == f"n.prototxt:3: layer 'd': key 'transform_param.{message}"


def test_planes_in_the_other_order_are_turned_before_everything_else():
    said = {"rgb": True, "mean_value": [1, 2, 3], "deviation_value": [4, 5, 6], "crop_size": 2}
    transform = Transform.from_proto(caffe.TransformationParameter(**said))
    red_first = np.random.default_rng(2).integers(0, 256, (3, 3, 4, 4), np.uint8)
    expected = (red_first[:, :, 1:3, 1:3] - np.reshape([1.0, 2, 3], (3, 1, 1))) / np.reshape(
        [4.0, 5, 6], (3, 1, 1)
    )
    for order, images in (("rgb", red_first), ("bgr", red_first[:, ::-1])):
        found = transform.taking(order)(images, np.arange(3), seed=0, train=False)
        assert np.allclose(found, expected, rtol=1e-6)


def test_a_transform_that_does_not_fit_the_images_is_refused():
    source = MemorySource("x", np.zeros((2, 3, 4, 5), np.uint8), np.zeros(2, np.int64))
    with pytest.raises(PrototxtError, match="crop_size: found 5, expected at most 4"):
        Batches(source, Transform(crop=5), 1, shuffle=False, seed=0, train=True)
    with pytest.raises(PrototxtError, match="mean_value: found 2, expected 1 or 3"):
        Batches(source, Transform(mean=(1.0, 2.0)), 1, shuffle=False, seed=0, train=True)
    grey = MemorySource("x", np.zeros((2, 1, 4, 5), np.uint8), np.zeros(2, np.int64))
    with pytest.raises(PrototxtError, match=r"found 2, expected 1 for images \(1, 4, 5\)"):
        Batches(grey, Transform(mean=(1.0, 2.0)), 1, shuffle=False, seed=0, train=True)
    with pytest.raises(
        DataError, match=(r"found batch 0, rows \[0, 2\), expected a part of " r"\[0, 1\)")
    ):
        Batches(source, Transform(), 1, shuffle=False, seed=0, train=True).read(0, 0, 2)


def test_bytes_after_the_end_of_an_idx_file_are_refused(pair):
    directory, _ = pair
    data = (directory / "images").read_bytes()
    (directory / "images").write_bytes(data + b"\0")
    with pytest.raises(
        DataError,
        match=(r"images: found more bytes of data, expected 60 for " r"shape \(5, 3, 4\)"),
    ):
        open_source(IDX, directory)

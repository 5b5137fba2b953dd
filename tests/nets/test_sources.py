"""Every source yields the samples of its files in Caffe's layout, or names the wrong file and the
mistake."""

import gzip
import re
import sys

import numpy as np
import pytest

from nets import DataError
from nets.data import Batches, MemorySource, Transform, open_source
from nets.data.decoding.decode import recolored
from nets.data.lmdb.datum import from_image
from nets.data.lmdb.writers import records_of, records_of_files, write_lmdb
from nets.data.pictures.resizing import resized
from tests.nets.support import SHARED, needs_shared

pillow = pytest.importorskip("PIL.Image")
pytest.importorskip("simplejpeg")
pytest.importorskip("lmdb")
RNG = np.random.default_rng(5)


def everything(source):
    return source.read(np.arange(len(source)))


# CIFAR-10


def test_cifar10_batches_follow_each_other_plain_or_gzipped(tmp_path):
    records = RNG.integers(0, 256, (5, 3073), dtype=np.uint8)
    records[:, 0] = [9, 0, 3, 3, 1]
    (tmp_path / "a.bin").write_bytes(records[:2].tobytes())
    (tmp_path / "b.bin.gz").write_bytes(gzip.compress(records[2:].tobytes()))
    source = open_source({"format": "cifar10", "files": ["a.bin", "b.bin.gz"]}, tmp_path)
    images, labels = everything(source)
    assert (source.shape, source.num_classes, labels.tolist()) == ((3, 32, 32), 10, [9, 0, 3, 3, 1])
    assert images[4, 2, 31, 30] == records[4, 1 + 2 * 1024 + 31 * 32 + 30]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.bin: found 0 bytes, expected a multiple of 3073, one record per image"),
        (bytes(3072), "a.bin: found 3072 bytes, expected a multiple of 3073, one record per image"),
        (b"\x0a" + bytes(3072), "a.bin: image 0: found label 10, expected 0 to 9"),
        (None, "no such file"),
    ],
)
def test_files_other_than_cifar10_batches_are_refused(tmp_path, data, message):
    if data is not None:
        (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(DataError, match=message):
        open_source({"format": "cifar10", "files": ["a.bin"]}, tmp_path)


@needs_shared
def test_the_real_cifar10_test_images_read():
    source = open_source(
        {"format": "cifar10", "files": ["test_batch_1000.bin.gz"]}, SHARED / "cifar10"
    )
    assert (len(source), source.labels[:8].tolist()) == (1000, [3, 8, 8, 0, 6, 6, 1, 6])


# image files


def photo(height=9, width=7):
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_images_of_a_list_are_bgr_planes_with_their_labels(tmp_path):
    pixels = [photo(), photo()]
    (tmp_path / "in dir").mkdir()
    for at, one in enumerate(pixels):
        pillow.fromarray(one).save(tmp_path / "in dir" / f"{at}.png")
    (tmp_path / "list.txt").write_text("in dir/1.png 4\n\nin dir/0.png 0\n")
    source = open_source({"format": "images", "source": "list.txt"}, tmp_path)
    images, labels = everything(source)
    assert (labels.tolist(), source.num_classes, source.shape) == ([4, 0], 5, (3, 9, 7))
    assert np.array_equal(images[0], pixels[1][:, :, ::-1].transpose(2, 0, 1))
    (tmp_path / "in dir" / "here.txt").write_text("1.png 3\n")
    beside = open_source({"format": "images", "source": "in dir/here.txt"}, tmp_path)
    assert np.array_equal(everything(beside)[0][0], images[0])
    with pytest.raises(DataError, match=r"absent/in dir/1.png: no such file"):
        open_source({"format": "images", "source": "list.txt", "root_folder": "absent"}, tmp_path)


def test_a_folder_per_class_is_labelled_in_the_order_of_names(tmp_path):
    for name, count in (("cat", 2), ("ant", 1)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for at in range(count):
            pillow.fromarray(photo()).save(tmp_path / "set" / name / f"{at}.png")
    (tmp_path / "set" / "cat" / "notes.txt").write_text("no image")
    source = open_source({"format": "images", "source": "set", "color": "gray"}, tmp_path)
    assert (everything(source)[1].tolist(), source.shape) == ([0, 1, 1], (1, 9, 7))


@pytest.mark.parametrize(
    ("second", "advice"),
    [
        ("1.png", 'like the first: give color = "color" or "gray"'),
        ("2.png", "like the first: give new_height and new_width"),
        (
            "3.png",
            'like the first: give new_height and new_width, and give color = "color" or "gray"',
        ),
    ],
)
def test_a_picture_that_differs_from_the_first_is_reported_with_the_keys_that_help(
    tmp_path, second, advice
):
    pixels = photo()
    grey = pixels[:, :, 0]
    for at, picture in enumerate((pixels, grey, pixels[:5], grey[:5])):
        pillow.fromarray(picture).save(tmp_path / f"{at}.png")
    (tmp_path / "list.txt").write_text(f"0.png 0\n{second} 0\n")
    table = {"format": "images", "source": "list.txt"}
    with pytest.raises(DataError) as error:
        everything(open_source({**table, "color": "stored"}, tmp_path))
    assert f"{second}: found an image of shape " in str(error.value)
    assert str(error.value).endswith(advice)
    keys = {"new_height": 9, "new_width": 7, "color": "color"}
    assert everything(open_source(table | keys, tmp_path))[0].shape == (2, 3, 9, 7)


def test_jpeg_and_png_of_one_picture_agree(tmp_path):
    ramp = np.linspace(0, 255, 64).astype(np.uint8)
    picture = np.stack(
        [np.add.outer(ramp // 2, ramp // 2), np.tile(ramp, (64, 1)), np.tile(ramp[::-1, None], 64)],
        2,
    )
    pillow.fromarray(picture).save(tmp_path / "a.jpg", quality=98, subsampling=0)
    pillow.fromarray(picture).save(tmp_path / "a.png")
    for color in ("color", "gray"):
        (tmp_path / "list.txt").write_text("a.jpg 0\na.png 0\n")
        source = open_source({"format": "images", "source": "list.txt", "color": color}, tmp_path)
        jpeg, png = everything(source)[0].astype(int)
        # quality 98 is not lossless; if planes were swapped, the difference would be 60
        assert np.abs(jpeg - png).mean() < 2


def naive_resize(image, height, width):
    old_h, old_w = image.shape
    result = np.empty((height, width))
    for i in range(height):
        for j in range(width):
            y = min(max((i + 0.5) * old_h / height - 0.5, 0), old_h - 1)
            x = min(max((j + 0.5) * old_w / width - 0.5, 0), old_w - 1)
            y0 = int(y)
            x0 = int(x)
            y1 = min(y0 + 1, old_h - 1)
            x1 = min(x0 + 1, old_w - 1)
            top = image[y0, x0] * (1 - (x - x0)) + image[y0, x1] * (x - x0)
            bottom = image[y1, x0] * (1 - (x - x0)) + image[y1, x1] * (x - x0)
            result[i, j] = top * (1 - (y - y0)) + bottom * (y - y0)
    return result


@pytest.mark.parametrize("size", [(5, 20), (13, 4), (1, 1), (9, 7)])
def test_resizing_is_bilinear_between_the_four_nearest_centres(size):
    image = RNG.integers(0, 256, (2, 9, 7), dtype=np.uint8)
    expected = np.stack([naive_resize(plane.astype(float), *size) for plane in image])
    np.testing.assert_allclose(resized(image.astype(np.float32), *size), expected, atol=1e-3)
    assert np.abs(resized(image, *size).astype(float) - expected).max() <= 0.501


def test_grey_weighs_colours_as_the_eye_does_and_colour_is_three_equal_planes():
    image = RNG.integers(0, 256, (3, 4, 4), dtype=np.uint8)
    expected = 0.114 * image[0] + 0.587 * image[1] + 0.299 * image[2]
    assert np.abs(recolored(image, "x", "gray")[0] - expected).max() <= 0.501
    assert np.array_equal(recolored(image[:1], "x", "color"), np.stack([image[0]] * 3))
    assert recolored(image, "x", "stored") is image
    with pytest.raises(DataError, match="x: found 2 channels, expected 1 or 3 to make it 'gray'"):
        recolored(image[:2], "x", "gray")


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"new_height": 4}, ["images: new_height, new_width: found 4, 0, expected two integers >= 1 whose product is at most 33554432, or neither"]),
        ({"new_height": 10**5, "new_width": 10**5},
         ["images: new_height, new_width: found 100000, 100000, expected two integers >= 1 whose product is at most 33554432, or neither"]),
        ({"color": "grey"},
         [("images: color: found 'grey', expected one of stored, color, gray (did you mean " "" "" "'gray'?)")]),
        ({"source": "bad.txt"},
         [("FOLDER/bad.txt:2: found 'b.png x', expected 'path label'"), "FOLDER/bad.txt:3: found 'c.png', expected 'path label'"]),
        ({"source": "empty.txt"}, ["FOLDER/empty.txt: found no line, expected 'path label'"]),
    ],
)  # fmt: skip
def test_mistakes_in_a_list_of_images_are_named_by_line(tmp_path, options, problems):
    (tmp_path / "list.txt").write_text("a.png 0\n")
    (tmp_path / "bad.txt").write_text("a.png 1\nb.png x\nc.png\n")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError) as caught:
        open_source({"format": "images", "source": "list.txt", **options}, tmp_path)
    found = [problem.replace(str(tmp_path), "FOLDER") for problem in caught.value.problems]
    assert found == problems


def test_images_of_two_sizes_require_a_size(tmp_path):
    for at, size in enumerate(((9, 7), (8, 7))):
        pillow.fromarray(photo(*size)).save(tmp_path / f"{at}.png")
    (tmp_path / "list.txt").write_text("0.png 0\n1.png 0\n")
    config = {"format": "images", "source": "list.txt"}
    with pytest.raises(
        DataError,
        match=(r"1.png: found an image of shape \(3, 8, 7\), " r"expected \(3, 9, 7\) like the f"),
    ):
        everything(open_source(config, tmp_path))
    sized = open_source({**config, "new_height": 5, "new_width": 6}, tmp_path)
    assert everything(sized)[0].shape == (2, 3, 5, 6)


def test_a_file_that_is_not_an_image_is_named(tmp_path):
    for name, data in (("a.jpg", b"\xff\xd8\xff\xe0 no"), ("a.png", b"\x89PNG no"), ("a.gif", b"")):
        (tmp_path / name).write_bytes(data)
        (tmp_path / "list.txt").write_text(f"{name} 0\n")
        with pytest.raises(DataError, match=rf"^{re.escape(str(tmp_path / name))}: damaged"):
            open_source({"format": "images", "source": "list.txt"}, tmp_path)


def test_a_missing_image_package_is_named_with_what_to_install(tmp_path, monkeypatch):
    pillow.fromarray(photo()).save(tmp_path / "a.jpg")
    (tmp_path / "list.txt").write_text("a.jpg 0\n")
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(
        DataError,
        match=(r"a.jpg: JPEG needs the package .*: pip install " r'"convoy-runtime\[images\]"'),
    ):
        open_source({"format": "images", "source": "list.txt"}, tmp_path)


@needs_shared
def test_real_photographs_read_at_one_size():
    options = {"new_height": 64, "new_width": 64}
    source = open_source(
        {"format": "images", "source": "val.txt", **options}, SHARED / "imagenet-sample"
    )
    images, labels = source.read(np.array([0, len(source) - 1]))
    assert (len(source), source.num_classes, labels.tolist(), images.shape) == (
        120,
        10,
        [0, 9],
        (2, 3, 64, 64),
    )
    assert 40 < images.mean() < 215


# LMDB


def test_a_database_gives_images_and_labels_back(tmp_path):
    images = RNG.integers(0, 256, (30, 2, 5, 4), dtype=np.uint8)
    assert write_lmdb(tmp_path / "db", records_of(zip(images, range(30), strict=True))) == 30
    source = open_source({"format": "lmdb", "source": "db"}, tmp_path)
    found, labels = source.read(np.array([29, 0, 7]))
    assert np.array_equal(found, images[[29, 0, 7]])
    assert (labels.tolist(), len(source), source.shape) == ([29, 0, 7], 30, (2, 5, 4))
    with pytest.raises(DataError, match="exists already"):
        write_lmdb(tmp_path / "db", [])
    assert [path.name for path in tmp_path.iterdir()] == ["db"]


def test_encoded_and_float_records_are_decoded(tmp_path):
    pillow.fromarray(photo(6, 5)).save(tmp_path / "a.png")
    write_lmdb(
        tmp_path / "encoded", records_of_files([tmp_path / "a.png"], [3], None, encoded=True)
    )
    write_lmdb(tmp_path / "raw", records_of_files([tmp_path / "a.png"], [3], None))
    found = [
        everything(open_source({"format": "lmdb", "source": name}, tmp_path))
        for name in ("encoded", "raw")
    ]
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1].tolist() == found[1][1].tolist() == [3]
    grey = open_source({"format": "lmdb", "source": "encoded", "color": "gray"}, tmp_path)
    assert grey.shape == (1, 6, 5)
    numbers = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    write_lmdb(tmp_path / "float", records_of([(numbers, 1)]))
    assert np.array_equal(
        everything(open_source({"format": "lmdb", "source": "float"}, tmp_path))[0][0], numbers
    )


def test_a_record_that_is_not_a_datum_is_named_by_its_number(tmp_path):
    good = from_image(np.zeros((1, 2, 2), np.uint8), 0)
    short = from_image(np.zeros((1, 2, 2), np.uint8), 0)
    short.height = 3
    records = [
        (b"0", good.SerializeToString()),
        (b"1", b"\xff\xff"),
        (b"2", short.SerializeToString()),
    ]
    write_lmdb(tmp_path / "db", records)
    source = open_source({"format": "lmdb", "source": "db"}, tmp_path)
    with pytest.raises(DataError, match=r"/db: record 1: damaged record, expected a Datum"):
        source.read(np.array([1]))
    with pytest.raises(
        DataError, match=(r"/db: record 2: found 4 values for an image of " r"shape \(1, 3, 2\)")
    ):
        source.read(np.array([2]))


def test_a_key_that_comes_twice_leaves_no_half_database(tmp_path):
    with pytest.raises(DataError, match="db: key b'0' comes twice"):
        write_lmdb(tmp_path / "db", [(b"0", b"a"), (b"0", b"b")])
    assert list(tmp_path.iterdir()) == []


# HDF5


def hdf5_files(directory):
    h5py = pytest.importorskip("h5py")
    parts = [RNG.random((count, 2, 3, 4)).astype(np.float32) for count in (5, 3)]
    for at, part in enumerate(parts):
        with h5py.File(directory / f"{at}.h5", "w") as file:
            file["data"], file["label"] = part, np.arange(len(part))[:, None] + 10 * at
    (directory / "list.txt").write_text("0.h5\n1.h5\n")
    return np.concatenate(parts)


def test_hdf5_rows_may_have_any_number_of_axes(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"], file["label"] = np.arange(12.0).reshape(4, 3), np.arange(4)
    source = open_source({"format": "hdf5", "source": "a.h5"}, tmp_path)
    batch = Batches(source, Transform(), 2, shuffle=False, seed=0, train=True).read(1, 0, 2)
    assert source.shape == (3,)
    assert [array.tolist() for array in batch] == [[[6, 7, 8], [9, 10, 11]], [2, 3]]


def test_hdf5_files_of_a_list_are_one_source(tmp_path):
    data = hdf5_files(tmp_path)
    source = open_source({"format": "hdf5", "source": "list.txt"}, tmp_path)
    found, labels = source.read(np.array([6, 0, 4, 5]))
    assert np.array_equal(found, data[[6, 0, 4, 5]])
    assert (labels.tolist(), len(source), source.shape) == ([11, 0, 4, 10], 8, (2, 3, 4))


def test_mistakes_in_hdf5_data_are_named(tmp_path):
    hdf5_files(tmp_path)
    config = {"format": "hdf5", "source": "list.txt"}
    with pytest.raises(DataError, match=r"0.h5: /lable: missing, expected a dataset"):
        open_source({**config, "tops": ["data", "lable"]}, tmp_path)
    (tmp_path / "list.txt").write_text("0.h5 2.h5")
    with pytest.raises(DataError, match=r"2.h5: no such file"):
        open_source(config, tmp_path)


@needs_shared
def test_caffes_own_hdf5_data_reads():
    config = {"format": "hdf5", "tops": ["data", "label", "label2"]}
    for name in ("sample_data.h5", "sample_data_2_gzip.h5"):
        source = open_source({**config, "source": name}, SHARED / "caffe" / "hdf5")
        data, label, label2 = everything(source)
        assert (data.shape, label.shape, source.shape) == ((10, 8, 6, 5), (10,), (8, 6, 5))
        assert np.array_equal(data.ravel()[:4] % 240, [0, 1, 2, 3])
        assert np.array_equal(label2 - label, np.ones(10))


# text


def test_text_is_steps_of_parallel_streams(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefghijklmnopqrstuvwxyz")
    source = open_source({"format": "text", "source": "t.txt", "streams": 2, "length": 4}, tmp_path)
    data, cont, target = everything(source)
    assert data.T.tolist() == [list(range(12)), list(range(12, 24))]
    assert target.tolist() == (data + 1).tolist()
    assert cont.T.tolist() == [[0, 1, 1, 1] * 3] * 2
    assert (len(source), source.num_classes, source.alphabet) == (
        12,
        26,
        "abcdefghijklmnopqrstuvwxyz",
    )


def test_sequences_stay_whole_when_they_are_shuffled(tmp_path):
    (tmp_path / "t.txt").write_text("".join(chr(0x4E00 + at) for at in range(81)))
    source = open_source({"format": "text", "source": "t.txt", "streams": 2, "length": 4}, tmp_path)
    batches = Batches(source, Transform(), 8, shuffle=True, seed=1, train=True)
    parts = [batches.read(ticket, low, low + 4) for ticket in range(5) for low in (0, 4)]
    for data, cont, target in parts:
        assert np.array_equal(data[1:], target[:-1])
        assert cont[:, 0].tolist() == [0, 1, 1, 1]
    assert sorted(int(part[0][0, 0]) for part in parts) == list(range(0, 40, 4))
    with pytest.raises(
        DataError, match="batch: found 6 steps of time, expected a multiple or a divisor of 4"
    ):
        Batches(source, Transform(), 6, shuffle=True, seed=1, train=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphabet": "abc"}, "t.txt: character 'd' is not in the alphabet"),
        ({"length": 100}, "t.txt: found 26 characters, expected more than 64 x 100"),
        ({"streams": 0}, "text: streams: found 0, expected an integer >= 1"),
        ({"part": ["0.5", "0.2"]}, "text: part: found .* expected two rising numbers from 0 to 1"),
    ],
)
def test_mistakes_in_a_text_source_are_named(tmp_path, options, message):
    (tmp_path / "t.txt").write_text("abcdefghijklmnopqrstuvwxyz")
    with pytest.raises(DataError, match=message):
        open_source({"format": "text", "source": "t.txt", **options}, tmp_path)


def test_the_two_parts_of_a_text_share_an_alphabet(tmp_path):
    (tmp_path / "t.txt").write_text("ab" * 50 + "c" * 20)
    config = {"format": "text", "source": "t.txt", "streams": 1, "length": 5}
    parts = [
        open_source({**config, "part": part}, tmp_path) for part in (["0", "0.75"], ["0.75", "1"])
    ]
    assert [part.alphabet for part in parts] == ["abc", "abc"]
    assert parts[1].data[-1, 0] == 2


@needs_shared
def test_shakespeare_has_the_65_characters_of_the_zoos_net():
    source = open_source({"format": "text", "source": "input.txt"}, SHARED / "shakespeare")
    assert (source.num_classes, len(source)) == (65, 1115393 // (64 * 32) * 32)


def test_a_source_describes_itself_in_one_line():
    source = MemorySource("x", np.zeros((2, 1, 3, 3), np.uint8), np.zeros(2, np.int64), 4)
    assert repr(source) == "<Source x 2 samples (1, 3, 3) classes=4>"

"""TIFFs whose strips or tiles are not all in the file, and the messages of libtiff."""

import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from nets import DataError
from nets.data.decoding.decode import image
from nets.data.pictures.notices import NOTICES
from nets.data.pictures.tiff_layout import SHORT
from tests.helpers.pictures import netpbm, pixels, tiff
from tests.helpers.support import environment

pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(5)
PHOTO = pixels(RNG, 3)[:32, :32]
HEIGHT, WIDTH = PHOTO.shape[:2]
TILE = {"t322": 16, "t323": 16, "t324": 8, "t325": 16 * 16 * 3}
FAR = 1 << 20
# name -> the file, and whether libtiff gives OpenCV any pixels
DAMAGED = {
    "too few strips": (tiff(PHOTO, t278=4), False),
    "too few strips, packed": (tiff(PHOTO, compress=True, t278=4), False),
    "too few planes": (tiff(PHOTO, t284=2), True),
    "too few tiles": (tiff(PHOTO, **TILE), False),
    "behind the end": (tiff(PHOTO, t273=FAR), False),
    "behind the end, packed": (tiff(PHOTO, compress=True, t273=FAR), False),
    "too long, packed": (tiff(PHOTO, compress=True, t279=FAR), False),
    "more rows than bytes": (tiff(PHOTO, t257=200), False),
    "at the start of the file": (tiff(PHOTO, t273=0), True),
    "of no rows": (tiff(PHOTO, t278=0), False),
    "packed in wrong bytes": (tiff(PHOTO, compress=True, t273=9), True),
    "half packed": (tiff(PHOTO, compress=True, t279=300), True),
}


@pytest.fixture(autouse=True)
def noticed(monkeypatch):
    """Nothing has been noticed before a test."""
    monkeypatch.setattr(NOTICES, "_names", {})


@pytest.mark.parametrize("name", DAMAGED)
def test_a_tiff_without_all_of_its_pixels_is_damaged_and_libtiff_is_silent(name, capfd):
    with pytest.raises(DataError, match=r"^a\.tif: damaged (TIFF image|or not an image): \w"):
        image(DAMAGED[name][0], "a.tif")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", DAMAGED)
def test_no_tiff_that_opencv_refuses_is_read(name, capfd):
    cv2 = pytest.importorskip("cv2", reason="needs OpenCV: pip install -e '.[caffe-reference]'")
    data, some = DAMAGED[name]
    assert (cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) is not None) == some


def test_the_error_names_the_strip_and_what_was_expected():
    with pytest.raises(DataError, match=rf"has places and sizes of 1 strip, expected {HEIGHT}$"):
        image(tiff(PHOTO, t278=1), "a.tif")
    with pytest.raises(DataError, match=rf"found strip 0 of \d+ bytes at byte {FAR}, but the file"):
        image(tiff(PHOTO, t273=FAR), "a.tif")
    with pytest.raises(DataError, match=r"a\.tif: damaged TIFF image: ZIPDecode: Decoding error"):
        image(DAMAGED["packed in wrong bytes"][0], "a.tif")


def test_a_header_of_many_pixels_takes_no_memory():
    data = tiff(PHOTO, t256=6000, t257=4000)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="damaged TIFF image"):
            image(data, "large.tif")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize("size", [0, HEIGHT * WIDTH * 3 - 1, 5, FAR])
def test_a_wrong_size_of_uncompressed_rows_loses_no_pixels(size, caplog):
    found = image(tiff(PHOTO, t279=size), "a.tif")
    assert (found == image(tiff(PHOTO), "whole")).all()
    told = [record.getMessage() for record in caplog.records]
    short = 0 < size < HEIGHT * WIDTH * 3
    assert told == (
        [f"a.tif: {SHORT}: strip 0 has {size} of {HEIGHT * WIDTH * 3} bytes"] if short else []
    )


def test_text_in_a_tiff_that_was_cut_is_ignored_without_a_warning(tmp_path):
    said = struct.Struct("<HHII")
    data = tiff(PHOTO, t33432=FAR)  # the copyright, whose place is behind the end of the file
    data = data.replace(said.pack(33432, 4, 1, FAR), said.pack(33432, 2, 99, FAR))
    (tmp_path / "a.tif").write_bytes(data)
    code = (
        "from pathlib import Path; from nets.data.decoding.decode import image; "
        "print(image(Path('a.tif').read_bytes(), 'a.tif').shape)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (ended.stdout, ended.stderr) == (f"{(3, HEIGHT, WIDTH)}\n", "")


# memory


def most_of(data):
    """The most memory of Python and NumPy during decoding, and the number of pixels."""
    tracemalloc.start()
    try:
        found = image(data, "large")
        return tracemalloc.get_traced_memory()[1], found[0].size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("planes", "options"), [(3, {}), (4, {"extra": 2}), (1, {"photometric": 1})]
)
def test_a_large_tiff_of_16_bits_is_changed_some_rows_at_a_time(planes, options):
    data = tiff(np.zeros((3000, 3000, planes), np.uint16), compress=True, **options)
    most, count = most_of(data)
    assert most < 8 * count  # two pictures of bytes, and some rows


def test_a_large_picture_in_plain_text_takes_no_more_memory_than_its_text():
    data = netpbm(np.full((400, 400, 3), 200, np.uint8), 3, 255)
    most, count = most_of(data)
    assert most < 2 * len(data) + 6 * count + (1 << 23)


@pytest.mark.parametrize("shape", [(3, 700_000), (700_000, 3), (1000, 1100)])
def test_pictures_of_every_shape_are_whole(shape):
    found = RNG.integers(0, 1 << 16, (*shape, 3), dtype=np.uint16)
    expected = ((found.astype(np.uint32) + 128) // 257)[:, :, ::-1].transpose(2, 0, 1)
    assert (image(tiff(found), "a.tif") == expected).all()

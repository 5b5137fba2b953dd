"""The formats of image files that are read. Files of other formats are never handed to a
program."""

import shutil

import numpy as np
import pytest

from nets.data.decoding.decode import FORMATS, image
from nets.data.sources.class_folders import SUFFIXES
from nets.data.sources.images import open_images
from nets.errors import DataError
from nets.predict.image_files import image as predicted

pillow = pytest.importorskip("PIL.Image")
eps = pytest.importorskip("PIL.EpsImagePlugin")

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n"
WMF = (
    b"\xd7\xcd\xc6\x9a\0\0"
    + b"\0\0\0\0\x04\0\x04\0"
    + b"\x60\0"
    + bytes(10)
    + b"\x01\0\x09\0"
    + bytes(20)
)


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """A program in place of Ghostscript. It leaves a file if it runs."""
    ran = tmp_path / "ran"
    script = tmp_path / "bin" / "gs"
    script.parent.mkdir()
    script.write_text(f"#!{shutil.which('sh')}\n: > '{ran}'\n")
    script.chmod(0o700)
    monkeypatch.setattr(eps, "gs_binary", str(script))
    return ran


def test_postscript_under_the_name_of_an_image_starts_no_program(ghostscript, tmp_path):
    (tmp_path / "set" / "cats").mkdir(parents=True)
    cat = tmp_path / "set" / "cats" / "cat.png"
    cat.write_bytes(EPS)
    words = (
        r"cat\.png: damaged or not an image: expected one of the formats BMP, GIF, JPEG, "
        r"PNG, PPM, TIFF, WEBP"
    )
    with pytest.raises(DataError, match=words):
        open_images(base_dir=tmp_path, source="set").read(np.array([0]))
    with pytest.raises(DataError, match=words):
        predicted(cat, (3, 4, 4), "bgr")
    assert not ghostscript.exists()


@pytest.mark.parametrize("kind", ["DIB", "EPS", "ICO", "JPEG2000", "PCX", "PDF", "SGI", "TGA"])
def test_a_format_beyond_the_list_is_refused_with_the_list(kind, tmp_path):
    path = tmp_path / "cat.png"
    pillow.new("RGB", (16, 16)).save(path, kind)
    with pytest.raises(
        DataError,
        match=(r"cat\.png: damaged or not an image: expected one of " r"the formats BMP, GIF"),
    ):
        image(path.read_bytes(), path.name)


def test_a_windows_metafile_is_refused():
    with pytest.raises(
        DataError, match=(r"cat\.png: damaged or not an image: expected one of " r"the formats")
    ):
        image(WMF, "cat.png")


@pytest.mark.parametrize(
    ("kind", "suffix"), [(kind, suffix) for kind in FORMATS for suffix in FORMATS[kind]]
)
def test_each_format_of_the_list_is_read_under_its_names(kind, suffix, tmp_path):
    path = tmp_path / f"cat{suffix}"
    pillow.new("RGB", (5, 4), (30, 20, 10)).save(path, kind)
    assert suffix in SUFFIXES
    assert image(path.read_bytes(), path.name).shape == (3, 4, 5)


def test_only_the_first_frame_of_a_moving_picture_is_decoded(tmp_path):
    frames = [pillow.new("RGB", (5, 4), (30 * at, 0, 0)) for at in range(4)]
    for suffix in (".gif", ".tif", ".webp"):
        path = tmp_path / f"cat{suffix}"
        frames[0].save(path, save_all=True, append_images=frames[1:])
        assert image(path.read_bytes(), path.name).max() < 30

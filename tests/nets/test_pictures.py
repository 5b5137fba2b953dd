"""Pictures whose bytes are unusual: sixteen bits, faults that libjpeg only warns of, orientation,
several frames, very large photographs, formats of phones."""

import re
import tracemalloc
import warnings

import numpy as np
import pytest

from nets import DataError
from nets.data import open_source
from nets.data.all_samples import read_all
from nets.data.decoding.decode import MAX_PIXELS, image
from nets.data.pictures.jpeg import WARNED
from nets.data.pictures.notices import NOTICES, SHOWN, Notices
from nets.data.pictures.orientation import of_exif, turned
from nets.data.pictures.rasters import FRAMES
from nets.data.pictures.resizing import resized
from nets.data.sources.class_folders import UNSUPPORTED
from tests.helpers.pictures import chunk, exif_of, netpbm, pixels, png, saved, tiff
from tests.helpers.pictures import image as picture_of

pillow = pytest.importorskip("PIL.Image")
simplejpeg = pytest.importorskip("simplejpeg")
RNG = np.random.default_rng(11)
PHOTO = pixels(RNG, 3)


@pytest.fixture(autouse=True)
def noticed(monkeypatch):
    """Nothing has been noticed before a test."""
    monkeypatch.setattr(NOTICES, "_names", {})


def jpeg(found=PHOTO, **options):
    return saved(pillow.fromarray(found), "JPEG", quality=95, **options)


# sixteen bits

RAMP = np.repeat((np.arange(256, dtype=np.uint16) * 257)[None], 16, axis=0)[:, :, None]
RAMPS = {
    "ramp16.png": png(RAMP),
    "ramp16.pgm": netpbm(RAMP, 5, 65535),
    "ramp16-text.pgm": netpbm(RAMP, 2, 65535),
    "ramp16.tif": tiff(RAMP, photometric=1),
    "ramp16-big.tif": tiff(RAMP, ">", photometric=1),
    "ramp16-packed.tif": tiff(RAMP, photometric=1, compress=True),
    "ramp16-colour.png": png(np.repeat(RAMP, 3, axis=2)),
    "ramp16-colour.tif": tiff(np.repeat(RAMP, 3, axis=2)),
    "ramp16-colour.ppm": netpbm(np.repeat(RAMP, 3, axis=2), 6, 65535),
    "ramp16-alpha.png": png(np.concatenate([RAMP, RAMP], axis=2)),
}


@pytest.mark.parametrize("name", RAMPS)
@pytest.mark.parametrize("color", ["gray", "color", "stored"])
def test_sixteen_bits_keep_all_grey_levels_of_the_upper_eight(name, color):
    found = image(RAMPS[name], name, color)
    planes = {"gray": 1, "color": 3, "stored": 3 if "colour" in name else 1}[color]
    assert found.shape == (planes, 16, 256)
    assert (found == np.arange(256)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.int32])
def test_a_tiff_of_floats_or_32_bits_is_refused_by_name(dtype):
    data = tiff(
        RAMP.astype(dtype) / 65535 if dtype == np.float32 else RAMP.astype(dtype), photometric=1
    )
    with pytest.raises(DataError, match=r"^ramp\.tif: .*"):
        image(data, "ramp.tif")


def test_floats_are_named_with_what_is_expected():
    data = tiff((RAMP / 65535).astype(np.float32), photometric=1)
    with pytest.raises(
        DataError, match=r"ramp\.tif: found floating-point numbers, expected a picture of 8 or 16"
    ):
        image(data, "ramp.tif")


def test_a_netpbm_file_of_twelve_bits_is_reported_since_opencv_reads_it_dark(caplog):
    found = image(netpbm(RAMP >> 4, 5, 4095), "twelve.pgm", "gray")
    assert (found == np.arange(256) >> 4).all()
    assert "twelve.pgm: Netpbm picture whose largest number fills neither 8 nor 16" in caplog.text


@pytest.mark.parametrize("kind", range(1, 7))
def test_a_netpbm_file_that_was_cut_is_damaged(kind):
    found = PHOTO[:, :, : 3 if kind in (3, 6) else 1] // (128 if kind in (1, 4) else 1)
    data = netpbm(found, kind, 255)
    assert image(data, "a.ppm").shape == (3, *found.shape[:2])
    with pytest.raises(DataError, match=r"^a\.ppm: damaged or not an image: found \d+ of \d+"):
        image(data[: len(data) * 2 // 3], "a.ppm")


def test_bits_in_plain_text_take_no_more_memory_than_their_file_has_bytes():
    data = b"P1 3 1\n0 1\t# grey\n0" + b" 1" * 500_000
    tracemalloc.start()
    try:
        found = image(data, "bits.pbm", "stored")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.tolist() == [[[255, 0, 255]]]
    assert most < 4 * len(data)
    with pytest.raises(DataError, match="expected numbers only"):
        image(b"P1 3 1 0 x 0", "bits.pbm")


@pytest.mark.parametrize(
    "header", [b"P5\n", b"P5\n3", b"P6\n3 x\n", b"P5\n3 4\n0\n", b"P5 1 1 70000 "]
)
def test_a_netpbm_file_with_a_wrong_header_is_refused(header):
    with pytest.raises(DataError, match=r"^a\.ppm: "):
        image(header + bytes(99), "a.ppm")


# JPEG that libjpeg only warns of

GOOD = jpeg(RNG.integers(0, 256, (48, 64, 3), dtype=np.uint8), subsampling=2)
SEGMENT = 20  # SOI and the segment of JFIF
WARNINGS = {
    "2-bytes-between-segments": GOOD[:SEGMENT] + bytes(2) + GOOD[SEGMENT:],
    "65-bytes-before-end": GOOD[:-2] + b"A" * 65 + GOOD[-2:],
    "jfif-0.00": GOOD[:11] + bytes(2) + GOOD[13:],
    "no-end-marker": GOOD[:-2],
}
SILENT = {
    "bytes-after-end": GOOD + b"A" * 65,
    "fill-bytes": GOOD[:SEGMENT] + b"\xff\xff" + GOOD[SEGMENT:],
    "many-fill-bytes": GOOD[:SEGMENT] + b"\xff" * 1_000_000 + GOOD[SEGMENT:],
    "comment": GOOD[:SEGMENT] + b"\xff\xfe\0\4hi" + GOOD[SEGMENT:],
}


@pytest.mark.parametrize("name", [*WARNINGS, *SILENT])
def test_a_jpeg_with_a_fault_that_libjpeg_only_warns_of_has_all_its_pixels(name, caplog):
    data = (WARNINGS | SILENT)[name]
    for color in ("color", "gray", "stored"):
        assert (image(data, name, color) == image(GOOD, "good", color)).all()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (name in WARNINGS), "once for a file"
    assert all(line.startswith(f"{name}: {WARNED}: ") for line in told)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8, 0.97])
def test_a_jpeg_that_was_cut_stays_an_error_with_its_name(part):
    with pytest.raises(DataError, match=r"^folder/cut\.jpg: damaged JPEG image: "):
        image(GOOD[: int(len(GOOD) * part)], "folder/cut.jpg")


def test_a_cut_jpeg_is_told_to_be_cut():
    with pytest.raises(
        DataError, match="damaged JPEG image: the file was cut: the data end before"
    ):
        image(GOOD[: len(GOOD) * 3 // 4], "cut.jpg")


def test_a_jpeg_that_was_cut_in_its_header_is_told_to_be_cut_or_of_unknown_colours():
    with pytest.raises(DataError, match="found no picture in its header: the file was cut, or"):
        image(GOOD[:40], "cut.jpg")


def test_wrong_bits_inside_a_jpeg_are_read_and_reported_as_opencv_does(caplog):
    data = bytearray(jpeg(pixels(RNG, 3), subsampling=0))
    middle = len(data) // 2
    data[middle : middle + 8] = b"\xa5" * 8
    found = image(bytes(data), "bits.jpg")
    assert found.shape[0] == 3
    assert caplog.text.count("bits.jpg") <= 1


def test_a_jpeg_of_four_inks_has_a_fault_that_is_only_warned_of():
    inks = saved(picture_of(RNG, "CMYK"), "JPEG")
    assert (image(inks[:-2], "inks.jpg") == image(inks, "whole")).all()


def test_the_log_names_the_first_pictures_of_a_kind_and_then_counts(caplog):
    notices = Notices()
    for _ in range(2):
        for at in range(100):
            notices.note(f"{at}.jpg", WARNED, "a fault")
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        *(f"{at}.jpg: {WARNED}: a fault" for at in range(SHOWN)),
        f"100 pictures so far: {WARNED}",
    ]


def test_a_check_of_all_samples_counts_the_pictures_with_a_notice(tmp_path, caplog):
    (tmp_path / "set" / "cat").mkdir(parents=True)
    names = []
    for at in range(5):
        path = tmp_path / "set" / "cat" / f"{at}.jpg"
        path.write_bytes(WARNINGS["no-end-marker"] if at % 2 else GOOD)
        names += [str(path)] if at % 2 else []
    source = open_source({"format": "images", "source": "set"}, tmp_path)
    caplog.clear()
    found = read_all(source)
    assert [*found.told((), None)] == [
        "5 samples",
        f"  {WARNED}: 2 ({', '.join(names)})",
        "  class 0: 5 samples",
    ]
    assert caplog.text == ""


# orientation


def stored_and_seen(orientation):
    """A picture, and how it is stored with an orientation."""
    rotated = {
        1: lambda p: p,
        2: lambda p: p[:, ::-1],
        3: lambda p: p[::-1, ::-1],
        4: lambda p: p[::-1],
        5: lambda p: p.transpose(1, 0, 2),
        6: lambda p: np.rot90(p, 1),
        7: lambda p: p[::-1, ::-1].transpose(1, 0, 2),
        8: lambda p: np.rot90(p, -1),
    }
    return np.ascontiguousarray(rotated[orientation](PHOTO)), PHOTO


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says_and_stored_keeps_its_rows(orientation):
    stored, seen = stored_and_seen(orientation)
    assert (turned(stored, orientation) == seen).all()
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"quality": 100})):
        data = saved(pillow.fromarray(stored), kind, exif=exif_of(orientation), **options)
        plain = saved(pillow.fromarray(stored), kind, **options)
        upright = image(data, kind)
        assert (image(data, kind, orientation="stored") == image(plain, kind)).all()
        expected = turned(image(plain, kind).transpose(1, 2, 0), orientation).transpose(2, 0, 1)
        assert (upright == expected).all()
        assert upright.shape[1:] == seen.shape[:2]


@pytest.mark.parametrize("order", ["little", "big"])
def test_exif_is_read_in_both_orders_of_bytes_and_damage_means_upright(order):
    def number(value, size):
        return value.to_bytes(size, order)

    head = (b"II" if order == "little" else b"MM") + number(42, 2) + number(8, 4)
    entries = [number(0x010F, 2) + number(2, 2) + number(4, 4) + b"abc\0"]
    entries += [number(0x0112, 2) + number(3, 2) + number(1, 4) + number(6, 2) + bytes(2)]
    block = head + number(2, 2) + b"".join(entries) + bytes(4)
    assert of_exif(block) == of_exif(b"Exif\0\0" + block) == 6
    assert {of_exif(block[:at]) for at in range(len(block) - 4)} == {1}
    assert of_exif(block.replace(number(6, 2) + bytes(2), number(9, 2) + bytes(2))) == 1
    assert of_exif(head[:4] + b"\xff\xff\xff\xff") == of_exif(b"") == of_exif(b"XX") == 1


def test_orientation_behind_other_segments_and_stray_bytes_is_found():
    turned_jpeg = jpeg(exif=exif_of(6))
    comment = b"\xff\xfe\0\4hi"
    stray = turned_jpeg[:2] + comment + bytes(3) + turned_jpeg[2:]
    assert image(stray, "a").shape == image(turned_jpeg, "b").shape == (3, *PHOTO.shape[1::-1])


def test_each_reader_of_pictures_turns_them_and_can_leave_them(tmp_path):
    from nets.predict import image_files
    from nets.tools.convert import images_to_lmdb

    pytest.importorskip("lmdb")
    (tmp_path / "set" / "cat").mkdir(parents=True)
    path = tmp_path / "set" / "cat" / "a.jpg"
    path.write_bytes(jpeg(exif=exif_of(6)))
    (tmp_path / "list.txt").write_text("set/cat/a.jpg 0\n")
    for orientation in ("exif", "stored"):
        expected = image(path.read_bytes(), "a", orientation=orientation)
        more = {"orientation": orientation}
        images_to_lmdb(tmp_path / "list.txt", tmp_path / orientation, orientation=orientation)
        if orientation == "exif":
            images_to_lmdb(tmp_path / "list.txt", tmp_path / "encoded", encoded=True)
        for config in (
            {"format": "images", "source": "set", **more},
            {"format": "images", "source": "list.txt", **more},
            {"format": "lmdb", "source": "encoded", **more},
            {"format": "lmdb", "source": orientation},
        ):
            source = open_source(config, tmp_path)
            assert (source.read(np.array([0]))[0][0] == expected).all(), config
        found = image_files.image(path, expected.shape, "bgr", orientation)
        assert (found == expected).all()


def test_an_unknown_orientation_is_refused_with_the_known_ones(tmp_path):
    (tmp_path / "list.txt").write_text("a.jpg 0\n")
    for kind in ("images", "lmdb"):
        with pytest.raises(
            DataError,
            match=f"{kind}: orientation: found 'upright', expected one of exif, stored",
        ):
            open_source({"format": kind, "source": "list.txt", "orientation": "upright"}, tmp_path)


# several frames


@pytest.mark.parametrize(
    ("kind", "suffix"), [("GIF", "gif"), ("PNG", "png"), ("WEBP", "webp"), ("TIFF", "tif")]
)
def test_the_first_of_several_frames_is_read_and_reported_once(kind, suffix, caplog):
    frames = [pillow.new("RGB", (5, 4), (30 * at, 0, 0)) for at in range(3)]
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:])
    name = f"moving.{suffix}"
    for _ in range(2):
        assert image(data, name).max() < 30
    assert [record.getMessage() for record in caplog.records] == [f"{name}: {FRAMES}"]


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", "BMP"])
def test_one_frame_is_not_reported(kind, caplog):
    image(saved(pillow.new("RGB", (5, 4)), kind), f"still.{kind}")
    assert caplog.text == ""


# very large photographs


def large_jpeg(height, width, **options):
    """A grey photograph of many pixels, in few bytes."""
    rows = np.linspace(0, 255, height).astype(np.uint8)
    picture = np.repeat(rows[:, None], width, axis=1)
    return saved(pillow.fromarray(picture), "JPEG", quality=50, **options)


def test_a_photograph_beyond_the_limit_is_scaled_while_it_is_decoded(monkeypatch):
    data = large_jpeg(600, 800)
    whole = image(data, "whole")
    monkeypatch.setattr("nets.data.pictures.jpeg.MAX_PIXELS", 100_000)
    monkeypatch.setattr("nets.data.pictures.kinds.MAX_PIXELS", 100_000)
    found = image(data, "large.jpg", size=(60, 80))
    assert found.shape == (3, 60, 80)
    assert np.abs(found.astype(int) - resized(whole, 60, 80)).max() <= 3
    with pytest.raises(
        DataError,
        match=r"large\.jpg: found an image of 600 x 800, expected at most 100000 pixels, or \d+ "
        "with new_height and new_width",
    ):
        image(data, "large.jpg")
    with pytest.raises(DataError, match="found an image of 600 x 800, expected at most 100000 p"):
        image(data, "large.jpg", size=(590, 790))
    monkeypatch.setattr("nets.data.pictures.jpeg.MAX_SCALED", 400_000)
    with pytest.raises(DataError, match="found an image of 600 x 800"):
        image(data, "large.jpg", size=(60, 80))


def test_the_size_of_a_turned_photograph_is_that_of_the_turned_one(monkeypatch):
    data = large_jpeg(400, 800, exif=exif_of(6))
    monkeypatch.setattr("nets.data.pictures.jpeg.MAX_PIXELS", 100_000)
    monkeypatch.setattr("nets.data.pictures.kinds.MAX_PIXELS", 100_000)
    asked = {}
    decode_jpeg = simplejpeg.decode_jpeg

    def noted(*args, **options):
        asked.update(options)
        return decode_jpeg(*args, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", noted)
    assert image(data, "a.jpg", size=(80, 20)).shape == (3, 80, 20)
    assert (asked["min_height"], asked["min_width"]) == (40, 160)


def test_a_large_photograph_can_be_stored_as_it_is_and_read_at_a_size(tmp_path, monkeypatch):
    from nets.tools.convert import images_to_lmdb

    pytest.importorskip("lmdb")
    monkeypatch.setattr("nets.data.pictures.jpeg.MAX_PIXELS", 100_000)
    monkeypatch.setattr("nets.data.pictures.kinds.MAX_PIXELS", 100_000)
    (tmp_path / "a.jpg").write_bytes(large_jpeg(600, 800))
    (tmp_path / "list.txt").write_text("a.jpg 0\n")
    images_to_lmdb(tmp_path / "list.txt", tmp_path / "db", encoded=True)
    source = open_source(
        {"format": "lmdb", "source": "db", "new_height": 30, "new_width": 40}, tmp_path
    )
    assert source.shape == (1, 30, 40)


def test_a_picture_within_the_limit_is_never_scaled_while_it_is_decoded():
    data = jpeg(pixels(RNG, 3))
    assert (image(data, "a", size=(4, 4)) == resized(image(data, "a"), 4, 4)).all()


@pytest.mark.slow
def test_a_photograph_of_48_megapixels_is_read_at_the_size_of_a_net():
    data = large_jpeg(6048, 8064)
    assert MAX_PIXELS < 6048 * 8064
    found = image(data, "photograph.jpg", size=(224, 224))
    assert found.shape == (3, 224, 224)
    assert np.abs(found[0, :, 0].astype(int) - np.linspace(0, 255, 224)).max() <= 4


def test_a_picture_of_100_megapixels_is_refused_without_a_warning_of_pillow():
    header = png(np.zeros((1, 1, 1), np.uint8))
    claimed = (10_000).to_bytes(4) * 2
    data = header[:8] + chunk(b"IHDR", claimed + header[24:29]) + header[33:]
    huge = pillow.new("1", (10_000, 10_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (None, "TIFF", "BMP"):
            found = data if kind is None else saved(huge, kind)
            with pytest.raises(DataError, match="huge: found an image of 10000 x 10000, expected"):
                image(found, "huge")


def test_the_transparency_of_a_palette_raises_no_warning_of_pillow():
    picture = pillow.fromarray(PHOTO).quantize(16)
    data = saved(picture, "PNG", transparency=bytes(range(16)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert image(data, "clear.png").shape == image(data, "clear.png", "gray").repeat(3, 0).shape


# formats of phones


@pytest.mark.parametrize(
    ("brands", "name"),
    [
        (b"heic\0\0\0\0mif1heic", "HEIC"),
        (b"mif1\0\0\0\0mif1heic", "HEIC"),
        (b"mif1\0\0\0\0mif1avif", "AVIF"),
        (b"avif\0\0\0\0avifmif1", "AVIF"),
        (b"avis\0\0\0\0msf1", "AVIF"),
    ],
)
def test_a_format_of_phones_is_named_as_not_supported(brands, name):
    data = (8 + len(brands)).to_bytes(4) + b"ftyp" + brands + bytes(99)
    with pytest.raises(
        DataError,
        match=rf"^photos/IMG_1\.jpg: found a picture in the format {name}, which is not supported: "
        "convert it to JPEG or PNG",
    ):
        image(data, "photos/IMG_1.jpg")


def test_formats_of_phones_in_a_folder_of_a_class_are_counted_by_their_name(tmp_path):
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "a.jpg").write_bytes(GOOD)
    for name in ("b.heic", "c.AVIF", "d.HEIF"):
        (tmp_path / "set" / "cat" / name).write_bytes(b"")
    (line,) = open_source({"format": "images", "source": "set"}, tmp_path).told
    assert f"{UNSUPPORTED}: 3 (cat/b.heic, cat/c.AVIF, cat/d.HEIF)" in line


# every kind of damage


@pytest.mark.parametrize("kind", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_a_picture_that_was_cut_anywhere_is_read_or_named(kind):
    data = saved(pillow.fromarray(PHOTO), kind)
    for at in range(0, len(data), max(1, len(data) // 60)):
        try:
            image(data[:at], "cut")
        except DataError as error:
            assert re.match(r"cut: (damaged|found)", str(error)), error

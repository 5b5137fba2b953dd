"""The formats of pictures, recognised by their first bytes, and the limits of their size."""

from __future__ import annotations

from nets.errors import DataError

# The formats that can be read, by Pillow's names, and the suffixes of their files. Each is a raster
# that is decoded in this process. Pillow's other formats do more: EPS starts Ghostscript, a whole
# programming language, on the file; Windows draws WMF; FLI, ICNS, PSD, SPIDER and others are
# parsers that no data set needs.
FORMATS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpeg", ".jpg"),
    "PNG": (".png",),
    "PPM": (".pgm", ".ppm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
# Formats of phones, which neither Caffe's OpenCV nor every Pillow can read: named in the error.
UNSUPPORTED = {"AVIF": (".avif",), "HEIC": (".heic", ".heif")}
# 34 million, which take up to 600 MB during decoding: more is an accident or an attack
MAX_PIXELS = 1 << 25

_BEGINNINGS = (
    (b"\xff\xd8", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"BM", "BMP"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),  # BigTIFF, with 64-bit offsets
    (b"MM\0+", "TIFF"),
)
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")


def kind_of(data: bytes, where: str) -> str:
    """Return the format of a picture, one of FORMATS. Raises DataError, which names `where`, if it
    is none of them."""
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[:1] == b"P" and data[1:2] in b"123456" and data[2:3].isspace():
        return "PPM"
    if phone := _of_phones(data):
        raise DataError(
            f"{where}: found a picture in the format {phone}, which is not supported: convert it "
            "to JPEG or PNG"
        )
    raise DataError(
        f"{where}: damaged or not an image: expected one of the formats {', '.join(FORMATS)}; "
        "the file's name does not matter; convert it to one of them"
    )


def check_size(height: int, width: int, where: str, advice: str = "") -> None:
    """Raise DataError for a picture without pixels, and for one of more than MAX_PIXELS."""
    if height * width > MAX_PIXELS or min(height, width) < 1:
        raise DataError(
            f"{where}: found an image of {height} x {width}, expected at most {MAX_PIXELS} "
            f"pixels{advice}"
        )


def _of_phones(data: bytes) -> str:
    """Return AVIF or HEIC if the brands in the file's first box say so, else ""."""
    if data[4:8] != b"ftyp":
        return ""
    brands = data[8 : min(int.from_bytes(data[:4]), 256)]
    if any(brand in brands for brand in _AVIF_BRANDS):
        return "AVIF"
    return "HEIC" if any(brand in brands for brand in _HEIC_BRANDS) else ""

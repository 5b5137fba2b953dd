"""Pictures of many sorts, made from random numbers, as bytes of files."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

Make = Callable[[np.random.Generator], bytes]
TAG_ORIENTATION = 0x0112


def pixels(rng: np.random.Generator, planes: int, most: int = 256) -> np.ndarray[Any, Any]:
    """A picture (H, W, planes) of a random size: waves and noise, so that JPEG keeps most of it."""
    height, width = (int(size) for size in rng.integers(9, 70, 2))
    down, across = np.mgrid[:height, :width]
    waves = [
        np.sin(down * rng.uniform(0.02, 0.3) + across * rng.uniform(0.02, 0.3) + rng.uniform(0, 6))
        for _ in range(planes)
    ]
    found = (np.stack(waves, axis=2) + 1) * (most * 0.45) + rng.uniform(
        0, most * 0.1, (height, width, planes)
    )
    return found.clip(0, most - 1).astype(np.uint16 if most > 256 else np.uint8)


def image(rng: np.random.Generator, mode: str) -> Any:
    """A picture of a mode of Pillow."""
    found = pixels(rng, {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode])
    return Image.frombytes(mode, found.shape[1::-1], found.tobytes())


def saved(picture: Any, kind: str, **options: Any) -> bytes:
    """The bytes of a file."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def exif_of(orientation: int) -> Any:
    """A block of EXIF with an orientation."""
    exif = Image.Exif()
    exif[TAG_ORIENTATION] = orientation
    return exif


def png(found: np.ndarray[Any, Any], more: bytes = b"") -> bytes:
    """A PNG of 8 or 16 bits: 1 to 4 planes are grey, grey and alpha, colour, colour and alpha."""
    height, width, planes = found.shape
    bits = 8 * found.dtype.itemsize
    header = struct.pack(">IIBBBBB", width, height, bits, {1: 0, 2: 4, 3: 2, 4: 6}[planes], 0, 0, 0)
    rows = found.astype(found.dtype.newbyteorder(">"))
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + more
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def tiff(
    found: np.ndarray[Any, Any],
    order: str = "<",
    photometric: int = 2,
    extra: int | None = None,
    compress: bool = False,
    **tags: int,
) -> bytes:
    """A TIFF of one strip. `extra`: the meaning of the last plane. `tags`: t262=1 and so on."""
    height, width, planes = found.shape
    data = found.astype(found.dtype.newbyteorder(order)).tobytes()
    data = zlib.compress(data) if compress else data
    bits = 8 * found.dtype.itemsize
    start = 8 + len(data) + len(data) % 2
    fields = {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [bits] * planes),
        259: (3, [8 if compress else 1]),
        262: (3, [photometric]),
        273: (4, [8]),
        277: (3, [planes]),
        278: (4, [height]),
        279: (4, [len(data)]),
        284: (3, [1]),
        339: (3, [3 if found.dtype.kind == "f" else 1] * planes),
    }
    if extra is not None:
        fields[338] = (3, [extra])
    fields |= {int(name[1:]): (3 + (value >> 16 > 0), [value]) for name, value in tags.items()}
    behind = start + 2 + 12 * len(fields) + 4
    entries, arrays = b"", b""
    for tag, (kind, values) in sorted(fields.items()):
        packed = struct.pack(f"{order}{len(values)}{'HI'[kind == 4]}", *values)
        if len(packed) > 4:
            place = struct.pack(f"{order}I", behind + len(arrays))
            arrays += packed
        else:
            place = packed.ljust(4, b"\0")
        entries += struct.pack(f"{order}HHI", tag, kind, len(values)) + place
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", start)
    body = data + b"\0" * (len(data) % 2)
    return head + body + struct.pack(f"{order}H", len(fields)) + entries + bytes(4) + arrays


def bmp_16(found: np.ndarray[Any, Any]) -> bytes:
    """A BMP of 5 bits per colour, from numbers (H, W, 3) of 5 bits."""
    height, width, _ = found.shape
    words = found[:, :, 0].astype(np.uint16) << 10 | found[:, :, 1].astype(np.uint16) << 5
    words |= found[:, :, 2]
    pad = width % 2
    rows = np.pad(words, ((0, 0), (0, pad)))[::-1].astype("<u2").tobytes()
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 16, 0, len(rows), 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + len(rows), 0, 0, 54) + info + rows


def netpbm(found: np.ndarray[Any, Any], kind: int, most: int) -> bytes:
    """A PBM, PGM or PPM."""
    height, width, _ = found.shape
    head = f"P{kind}\n# made\n{width} {height}\n" + (f"{most}\n" if kind not in (1, 4) else "")
    if kind <= 3:
        body = " ".join(map(str, found.ravel().tolist())).encode() + b"\n"
    elif kind == 4:
        body = np.packbits(found[:, :, 0].astype(bool), axis=1).tobytes()
    else:
        body = found.astype(">u2" if most > 255 else "u1").tobytes()
    return head.encode() + body


def _turned(rng: np.random.Generator, kind: str, **options: Any) -> bytes:
    return saved(image(rng, "RGB"), kind, exif=exif_of(int(rng.integers(1, 9))), **options)


def _palette(rng: np.random.Generator, kind: str, **options: Any) -> bytes:
    return saved(image(rng, "RGB").quantize(int(rng.integers(2, 256))), kind, **options)


def _animated(rng: np.random.Generator, kind: str, mode: str = "RGB", **options: Any) -> bytes:
    first = image(rng, mode)
    more = [first.transpose(Image.Transpose.FLIP_LEFT_RIGHT), first.rotate(180)]
    return saved(first, kind, save_all=True, append_images=more, **options)


def _clear(rng: np.random.Generator) -> bytes:
    """A palette with an opacity for each colour."""
    alphas = bytes(rng.integers(0, 256, 16, dtype=np.uint8))
    return saved(image(rng, "RGB").quantize(16), "PNG", transparency=alphas)


def _small_frame(rng: np.random.Generator) -> bytes:
    """A frame with clear pixels that is smaller than its canvas, on another background."""
    data = bytearray(_palette(rng, "GIF", transparency=1))
    width, height = struct.unpack("<HH", data[6:10])
    data[6:10] = struct.pack("<HH", width + 5, height + 3)
    data[11] = int(rng.integers(0, 2))
    return bytes(data)


EXACT, GREY, LOSSY = "exact", "within 1", "within 2 for 99 of 100"
# sort -> how near to OpenCV, and the function that makes one
SORTS: dict[str, tuple[str, Make]] = {
    "jpeg 4:4:4": (LOSSY, lambda r: saved(image(r, "RGB"), "JPEG", quality=90, subsampling=0)),
    "jpeg 4:2:2": (LOSSY, lambda r: saved(image(r, "RGB"), "JPEG", quality=80, subsampling=1)),
    "jpeg 4:2:0": (LOSSY, lambda r: saved(image(r, "RGB"), "JPEG", quality=70, subsampling=2)),
    "jpeg progressive": (LOSSY, lambda r: saved(image(r, "RGB"), "JPEG", progressive=True)),
    "jpeg grey": (LOSSY, lambda r: saved(image(r, "L"), "JPEG")),
    "jpeg cmyk": (GREY, lambda r: saved(image(r, "CMYK"), "JPEG")),
    "jpeg turned": (LOSSY, lambda r: _turned(r, "JPEG")),
    "png": (EXACT, lambda r: saved(image(r, "RGB"), "PNG")),
    "png alpha": (EXACT, lambda r: saved(image(r, "RGBA"), "PNG")),
    "png grey": (EXACT, lambda r: saved(image(r, "L"), "PNG")),
    "png grey alpha": (EXACT, lambda r: saved(image(r, "LA"), "PNG")),
    "png palette": (EXACT, lambda r: _palette(r, "PNG")),
    "png palette alpha": (EXACT, _clear),
    "png clear colour": (EXACT, lambda r: saved(image(r, "RGB"), "PNG", transparency=(9, 9, 9))),
    "png clear grey": (EXACT, lambda r: saved(image(r, "L"), "PNG", transparency=9)),
    "png 1 bit": (EXACT, lambda r: saved(image(r, "L").convert("1"), "PNG")),
    "png 16 grey": (EXACT, lambda r: png(pixels(r, 1, 1 << 16))),
    "png 16 grey alpha": (EXACT, lambda r: png(pixels(r, 2, 1 << 16))),
    "png 16 colour": (EXACT, lambda r: png(pixels(r, 3, 1 << 16))),
    "png 16 alpha": (EXACT, lambda r: png(pixels(r, 4, 1 << 16))),
    "png gamma": (EXACT, lambda r: png(pixels(r, 3), chunk(b"gAMA", struct.pack(">I", 100000)))),
    "png turned": (EXACT, lambda r: _turned(r, "PNG")),
    "png animated": (EXACT, lambda r: _animated(r, "PNG")),
    "bmp": (EXACT, lambda r: saved(image(r, "RGB"), "BMP")),
    "bmp alpha": (EXACT, lambda r: saved(image(r, "RGBA"), "BMP")),
    "bmp grey": (EXACT, lambda r: saved(image(r, "L"), "BMP")),
    "bmp palette": (EXACT, lambda r: _palette(r, "BMP")),
    "bmp 1 bit": (EXACT, lambda r: saved(image(r, "L").convert("1"), "BMP")),
    "bmp 16 bits": (EXACT, lambda r: bmp_16(pixels(r, 3, 32))),
    "gif": (EXACT, lambda r: _palette(r, "GIF")),
    "gif grey": (EXACT, lambda r: saved(image(r, "L"), "GIF")),
    "gif clear": (EXACT, lambda r: _palette(r, "GIF", transparency=1)),
    "gif small frame": (EXACT, _small_frame),
    "gif animated": (EXACT, lambda r: _animated(r, "GIF")),
    "tiff": (EXACT, lambda r: saved(image(r, "RGB"), "TIFF")),
    "tiff lzw": (EXACT, lambda r: saved(image(r, "RGB"), "TIFF", compression="tiff_lzw")),
    "tiff grey": (EXACT, lambda r: saved(image(r, "L"), "TIFF")),
    "tiff white is zero": (EXACT, lambda r: tiff(pixels(r, 1), photometric=0)),
    "tiff 1 bit": (EXACT, lambda r: saved(image(r, "L").convert("1"), "TIFF")),
    "tiff palette": (EXACT, lambda r: _palette(r, "TIFF")),
    "tiff alpha": (EXACT, lambda r: saved(image(r, "RGBA"), "TIFF")),
    "tiff alpha in colours": (EXACT, lambda r: tiff(pixels(r, 4), extra=1)),
    "tiff grey alpha": (EXACT, lambda r: tiff(pixels(r, 2), photometric=1, extra=2)),
    "tiff cmyk": (GREY, lambda r: saved(image(r, "CMYK"), "TIFF")),
    "tiff 16 grey": (EXACT, lambda r: tiff(pixels(r, 1, 1 << 16), photometric=1)),
    "tiff 16 grey big": (EXACT, lambda r: tiff(pixels(r, 1, 1 << 16), ">", photometric=1)),
    "tiff 16 white is zero": (EXACT, lambda r: tiff(pixels(r, 1, 1 << 16), photometric=0)),
    "tiff 16 grey packed": (
        EXACT,
        lambda r: tiff(pixels(r, 1, 1 << 16), photometric=1, compress=True),
    ),
    "tiff 16 colour": (EXACT, lambda r: tiff(pixels(r, 3, 1 << 16))),
    "tiff 16 colour big": (EXACT, lambda r: tiff(pixels(r, 3, 1 << 16), ">")),
    "tiff 16 colour packed": (EXACT, lambda r: tiff(pixels(r, 3, 1 << 16), compress=True)),
    "tiff 16 alpha": (EXACT, lambda r: tiff(pixels(r, 4, 1 << 16), extra=2)),
    "tiff turned": (EXACT, lambda r: tiff(pixels(r, 3), t274=int(r.integers(1, 9)))),
    "webp lossless": (EXACT, lambda r: saved(image(r, "RGB"), "WEBP", lossless=True)),
    "webp lossy": (LOSSY, lambda r: saved(image(r, "RGB"), "WEBP")),
    "webp alpha": (EXACT, lambda r: saved(image(r, "RGBA"), "WEBP", lossless=True, exact=True)),
    "webp animated": (EXACT, lambda r: _animated(r, "WEBP", lossless=True)),
    "webp turned": (EXACT, lambda r: _turned(r, "WEBP", lossless=True)),
    "pbm": (EXACT, lambda r: netpbm(pixels(r, 1) // 128, 4, 1)),
    "pbm text": (EXACT, lambda r: netpbm(pixels(r, 1) // 128, 1, 1)),
    "pgm": (EXACT, lambda r: netpbm(pixels(r, 1), 5, 255)),
    "pgm text": (EXACT, lambda r: netpbm(pixels(r, 1, 100), 2, 100)),
    "pgm 7 bits": (EXACT, lambda r: netpbm(pixels(r, 1, 128), 5, 127)),
    "pgm 16": (EXACT, lambda r: netpbm(pixels(r, 1, 1 << 16), 5, 65535)),
    "pgm 12": (EXACT, lambda r: netpbm(pixels(r, 1, 1 << 12), 5, 4095)),
    "ppm": (EXACT, lambda r: netpbm(pixels(r, 3), 6, 255)),
    "ppm text": (EXACT, lambda r: netpbm(pixels(r, 3), 3, 255)),
    "ppm 16": (EXACT, lambda r: netpbm(pixels(r, 3, 1 << 16), 6, 65535)),
    "ppm 16 text": (EXACT, lambda r: netpbm(pixels(r, 3, 1 << 16), 3, 65535)),
}

"""Image files, named by a list ("path label" per line, Caffe's ImageData) or in one folder per
class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data import decode
from nets.data.source import Images, Labels, Source, stacked
from nets.errors import DataError, did_you_mean
from nets.reasons import reason
from nets.regular import is_folder, read_bytes, read_text

SUFFIXES = tuple(sorted(suffix for suffixes in decode.FORMATS.values() for suffix in suffixes))
MAX_FILE = 1 << 28  # bytes of one encoded image
MAX_LIST = 1 << 28  # bytes of a list: some million images


def open_images(
    *,
    base_dir: Path,
    source: str,
    root_folder: str = "",
    new_height: int = 0,
    new_width: int = 0,
    color: str = "color",
) -> ImageSource:
    """Open the list file `source`, or the folder `source` with one folder of images per class.

    Paths in a list begin at `root_folder` (default: the list's folder). Folders get the labels 0,
    1, ... in the order of their names.
    """
    path = base_dir / source
    size = check_size("images", new_height, new_width, color)
    if is_folder(path):
        if root_folder:
            raise DataError(
                f"images: root_folder: found '{root_folder}', but the source is a folder, "
                "not a list of paths"
            )
        found = ImageSource(*read_folders(path), size, color, by_class=True)
        found.class_names = tuple(folder.name for folder in class_folders(path))
        return found
    return ImageSource(
        *read_list(path, base_dir / root_folder if root_folder else path.parent), size, color
    )


def check_size(what: str, height: int, width: int, color: str) -> tuple[int, int] | None:
    """Return (height, width), or None if both are 0. Raises DataError if only one is given or
    `color` is unknown."""
    problems = []
    if color not in decode.COLORS:
        near = did_you_mean(color, decode.COLORS)
        problems.append(
            f"{what}: color: found '{color}', expected one of {', '.join(decode.COLORS)}{near}"
        )
    if (
        min(height, width) < 0
        or (height == 0) != (width == 0)
        or height * width > decode.MAX_PIXELS
    ):
        problems.append(
            f"{what}: new_height, new_width: found {height}, {width}, expected two integers "
            ">= 1 or neither"
        )
    if problems:
        raise DataError(problems)
    return (height, width) if height else None


def read_list(path: Path, root: Path) -> tuple[list[Path], list[int]]:
    """Return the paths and labels of a list. The label is the text after a line's last space."""
    lines = read_text(path, MAX_LIST, "a list of images").split("\n")
    paths = []
    labels = []
    problems = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, label = line.rstrip().rpartition(" ")
        if not name.strip() or not label.isascii() or not label.isdigit() or len(label) > 9:
            problems.append(f"{path.name}:{number}: found {line[:80]!r}, expected 'path label'")
            continue
        paths.append(root / name.strip())
        labels.append(int(label))
    if problems or not paths:
        more = (
            [(f"{path.name}: and {len(problems) - 10} more such lines")]
            if len(problems) > 10
            else []
        )
        raise DataError(
            [*problems[:10], *more] or (f"{path.name}: found no line, expected 'path label'")
        )
    return paths, labels


def read_folders(path: Path) -> tuple[list[Path], list[int]]:
    """Return the images below `path`, which has one folder per class, and their labels, in the
    order of names."""
    classes = class_folders(path)
    found = [
        (file, label)
        for label, folder in enumerate(classes)
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in SUFFIXES
    ]
    if not found:
        there = f"{len(classes)} folders without an image" if classes else "no folders"
        raise DataError(f"{path.name}: found {there}, expected a folder of images per class")
    return [file for file, _ in found], [label for _, label in found]


def class_folders(path: Path) -> list[Path]:
    """Return the class folders in `path`, in the order of their labels."""
    return sorted(folder for folder in path.iterdir() if is_folder(folder))


class ImageSource(Source):
    """Images that are decoded when they are read, in OpenCV's channel order (BGR). Classes are 0 to
    the largest label."""

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Sequence[int],
        size: tuple[int, int] | None,
        color: str = "color",
        *,
        by_class: bool = False,
    ) -> None:
        self.by_class = by_class
        self._paths = list(paths)
        self._labels = np.array(labels, np.int64)
        self._size = size
        self._color = color
        super().__init__("images", self._one(0).shape, num_classes=int(self._labels.max()) + 1)

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return images (n, C, H, W) uint8 and labels (n,)."""
        names = [self._paths[index].name for index in indices]
        return stacked(
            (self._one(int(index)) for index in indices), names, self.shape
        ), self._labels[indices]

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the names and labels of all images, then the files of the given ones."""
        yield "\n".join(path.name for path in self._paths).encode()
        yield self._labels.tobytes()
        yield from (read_file(self._paths[index]) for index in indices)

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return the given images and all labels."""
        return self.read(indices)[0], self._labels

    def _one(self, index: int) -> Any:
        path = self._paths[index]
        image = decode.image(read_file(path), path.name, self._color)
        return decode.resized(image, *self._size) if self._size else image


def read_file(path: Path) -> bytes:
    """Return the bytes of an image file. Raises DataError if it cannot be read or is larger than
    any image."""
    try:
        return read_bytes(path, MAX_FILE)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {reason(error)}") from None

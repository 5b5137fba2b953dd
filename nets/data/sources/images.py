"""Image files, named by a list ("path label" per line, Caffe's ImageData) or in one folder per
class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import decode
from nets.data.decoding.encoded import Decoder, Picture, decoded, read_file
from nets.data.sources.class_folders import ClassFolders, class_folders
from nets.data.sources.located import located
from nets.data.sources.passed_over import first
from nets.data.sources.source import Images, Labels, Source, first_shape
from nets.errors import DataError, did_you_mean
from nets.regular import is_folder, read_text

MAX_LIST = 1 << 28  # bytes of a list: some million images


def open_images(
    *,
    base_dir: Path,
    source: str,
    root_folder: str = "",
    new_height: int = 0,
    new_width: int = 0,
    color: str = "color",
    orientation: str = "exif",
    classes: Sequence[str] = (),
) -> ImageSource:
    """Open the list file `source`, or the folder `source` with one folder of images per class.

    Paths in a list begin at `root_folder` (default: the list's folder). `classes`: the names of the
    folders in the order of their labels; without it, folders with an image get the labels 0, 1, ...
    in the order of their names.
    """
    path = located(base_dir, source)
    size = check_options("images", new_height, new_width, color, orientation)
    if is_folder(path):
        if root_folder:
            raise DataError(
                f"images: root_folder: found '{root_folder}', but the source is a folder, "
                "not a list of paths"
            )
        folders = class_folders(path, classes)
        return ImageSource(folders.paths, folders.labels, size, color, orientation, folders=folders)
    if classes:
        raise DataError(
            f"images: classes: found {first(classes)}, but the source is not a folder with one "
            "folder per class"
        )
    root = located(base_dir, root_folder) if root_folder else None
    return ImageSource(*read_list(path, root), size, color, orientation, listed=path)


def check_options(
    what: str, height: int, width: int, color: str, orientation: str
) -> tuple[int, int] | None:
    """Return (height, width), or None if both are 0. Raises DataError if only one is given, or if
    `color` or `orientation` is unknown."""
    problems = [
        f"{what}: {key}: found '{found}', expected one of {', '.join(known)}"
        f"{did_you_mean(found, known)}"
        for key, found, known in (
            ("color", color, decode.COLORS),
            ("orientation", orientation, decode.ORIENTATIONS),
        )
        if found not in known
    ]
    if (
        min(height, width) < 0
        or (height == 0) != (width == 0)
        or height * width > decode.MAX_PIXELS
    ):
        problems.append(
            f"{what}: new_height, new_width: found {height}, {width}, expected two integers "
            f">= 1 whose product is at most {decode.MAX_PIXELS}, or neither"
        )
    if problems:
        raise DataError(problems)
    return (height, width) if height else None


def read_list(path: Path, root: Path | None = None) -> tuple[list[Path], list[int]]:
    """Return the paths and labels of a list. The label is the text after a line's last space.

    Paths begin at `root`, also those with a leading "/", as Caffe joins them; without `root`, at
    the list's folder.
    """
    lines = read_text(path, MAX_LIST, "a list of images").split("\n")
    paths = []
    labels = []
    problems = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, label = line.rstrip().rpartition(" ")
        name = name.strip()
        if not name or not label.isascii() or not label.isdigit() or len(label) > 9:
            problems.append(f"{path}:{number}: found {line[:80]!r}, expected 'path label'")
            continue
        paths.append(
            located(path.parent, name) if root is None else located(root, name.lstrip("/"))
        )
        labels.append(int(label))
    if problems or not paths:
        more = [f"{path}: and {len(problems) - 10} more such lines"] if len(problems) > 10 else []
        raise DataError([*problems[:10], *more] or f"{path}: found no line, expected 'path label'")
    return paths, labels


class ImageSource(Source):
    """Images that are decoded when they are read, in OpenCV's channel order (BGR). Classes are
    those of the `folders`, or 0 to the largest label. `listed`: the list with the labels."""

    of_bytes = True

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Sequence[int],
        size: tuple[int, int] | None,
        color: str = "color",
        orientation: str = "exif",
        *,
        folders: ClassFolders | None = None,
        listed: Path | None = None,
    ) -> None:
        self._paths = list(paths)
        self._labels = np.array(labels, np.int64)
        self._size = size
        self._color = color
        self._decoder: Decoder = decoded
        self.orientation = orientation
        self.by_class = folders is not None
        self.label_list = listed
        if folders is not None:
            self.class_names = folders.names
            self.told = folders.told
        count = max(len(self.class_names), int(self._labels.max()) + 1)
        shape = first_shape(self._one, len(self._paths))
        super().__init__("images", shape, num_classes=count)

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return images (n, C, H, W) uint8 and labels (n,)."""
        pictures = (self._picture(int(index)) for index in indices)
        return self._decoder(pictures, len(indices), self.shape), self._labels[indices]

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the names and labels of all images, then the files of the given ones."""
        yield b"\n".join(map(name_bytes, self._paths))
        yield self._labels.tobytes()
        yield from (read_file(self._paths[index]) for index in indices)

    def sample_file(self, index: int) -> str:
        """Return the path of the image."""
        return str(self._paths[index])

    def label_place(self, label: float) -> str:
        """Return the list and its first line with this label, or the name of the source."""
        if self.label_list is None:
            return self.name
        lines = read_text(self.label_list, MAX_LIST, "a list of images").split("\n")
        found = (at for at, line in enumerate(lines, 1) if _label(line) == label)
        return f"{self.label_list}:{next(found, 1)}"

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return the given images and all labels."""
        return self.read(indices)[0], self._labels

    def decode_with(self, decoder: Decoder) -> bool:
        self._decoder = decoder
        return True

    def _one(self, index: int) -> Any:
        return self._picture(index).image()

    def _picture(self, index: int) -> Picture:
        path = str(self._paths[index])
        place = f"its line from {self.label_list}" if self.label_list else "it from its folder"
        remedy = f"remove {place}"
        return Picture(None, path, self._color, self.orientation, self._size, remedy)


def _label(line: str) -> int | None:
    """Return the label of a line of a list, None if it has none."""
    label = line.rstrip().rpartition(" ")[2]
    return int(label) if label.isascii() and label.isdigit() else None


def name_bytes(path: Path) -> bytes:
    """Return the name of a file as bytes, also a name that is not UTF-8."""
    return path.name.encode("utf-8", "surrogateescape")

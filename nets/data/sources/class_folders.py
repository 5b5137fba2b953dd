"""Folders of images: one folder per class, or all images below a folder.

File managers, notebooks and archives leave files and folders there that are not images of the user:
each of them is passed over, and counted.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nets.data.decoding import decode
from nets.data.sources.passed_over import PassedOver, first, shown
from nets.errors import DataError
from nets.reasons import reason

SUFFIXES = tuple(sorted(suffix for suffixes in decode.FORMATS.values() for suffix in suffixes))
SYSTEM = frozenset(
    (
        "__macosx",  # macOS' archives
        "$recycle.bin",  # Windows
        "recycler",
        "system volume information",
        "lost+found",  # Linux
        "@eadir",  # Synology's and QNAP's disks
        "#recycle",
        "#snapshot",
        "@recycle",
        "@recently-snapshot",
        "__pycache__",  # Python
    )
)

HIDDEN = "hidden files and folders"
OF_SYSTEM = "folders of a file manager or an archive"
NOT_A_FILE = "links to nothing or in a circle, and other things that are no files"
UNSUPPORTED_SUFFIXES = frozenset(suffix for each in decode.UNSUPPORTED.values() for suffix in each)
UNSUPPORTED = (
    f"images in the formats {' and '.join(decode.UNSUPPORTED)}, which are not supported (convert "
    "them to JPEG or PNG)"
)
NOT_AN_IMAGE = f"files without the suffix of an image, {' '.join(SUFFIXES)}"
IN_A_CLASS = "folders inside the folder of a class"
IN_NO_CLASS = "files outside the folders of classes"
EMPTY = "folders without an image"
UNKNOWN = "folders with the name of no class"
AGAIN = "links to folders that are searched already"
UNREADABLE = "folders that cannot be read"


@dataclass(frozen=True)
class ClassFolders:
    """The images in one folder per class: their `paths` and `labels`, in the order of names.
    `names` are the classes in the order of labels. `told`: lines for the user about whatever was
    passed over, is missing or looks like a mistake."""

    names: tuple[str, ...]
    paths: list[Path]
    labels: list[int]
    told: tuple[str, ...]


def class_folders(path: Path, classes: Sequence[str] = ()) -> ClassFolders:
    """Return the images below `path`, which has one folder per class.

    `classes`: the names of the classes in the order of their labels. Without it, each folder with
    an image is a class, in the order of names. Raises DataError if no image is found.
    """
    passed = PassedOver(path)
    images = {folder.name: list(_images_in(folder, passed)) for folder in _folders(path, passed)}
    if mistakes := [f"{path}: classes: {text}" for text in repeated(classes)]:
        raise DataError(mistakes)
    full = [name for name, found in images.items() if found]
    names = tuple(classes or full)
    numbers = {name: label for label, name in enumerate(names)}
    for name, found in images.items():
        if not found:
            passed.note(path / name, EMPTY)
        elif name not in numbers:
            passed.note(path / name, UNKNOWN)
    taken = [name for name in full if name in numbers]
    every = [*names, *(name for name in full if name not in numbers)]
    told = (*passed.told, *_missing(path, names, taken), *_alike(path, every))
    if not taken:
        raise DataError([_nothing(path, len(images), classes), *told])
    return ClassFolders(
        names,
        [file for name in taken for file in images[name]],
        [numbers[name] for name in taken for _ in images[name]],
        told,
    )


def class_names(path: Path) -> tuple[str, ...]:
    """Return the names of the classes whose folders `path` has, without listing all images."""
    passed = PassedOver(path)
    return tuple(
        folder.name
        for folder in _folders(path, passed)
        if next(_images_in(folder, passed), None) is not None
    )


def images_below(path: Path, passed: PassedOver) -> Iterator[Path]:
    """Yield the images in a folder and in all folders below it, in the order of names. Each folder
    is searched once, so links in a circle end. A folder that cannot be read is passed over."""
    searched: set[tuple[int, int]] = set()

    def inside(folder: Path) -> Iterator[Path]:
        try:
            found = folder.stat()
            if (identity := (found.st_dev, found.st_ino)) in searched:
                passed.note(folder, AGAIN)
                return
            searched.add(identity)
            yield from [folder / entry.name for entry in _entries(folder, passed)]
        except (OSError, DataError):
            passed.note(folder, UNREADABLE)

    open_folders = [inside(path)]
    while open_folders:
        file = next(open_folders[-1], None)
        if file is None:
            open_folders.pop()
        elif file.is_dir():
            open_folders.append(inside(file))
        elif _is_image(file, passed):
            yield file


def repeated(names: Sequence[str]) -> Iterator[str]:
    """Yield a text for each name that is given several times."""
    for name, count in Counter(names).items():
        if count > 1:
            yield f"found '{shown(name)}' {count} times, expected each class once"


def alike(names: Sequence[str]) -> Iterator[str]:
    """Yield a text for each group of names that differ only in case or in their Unicode form."""
    groups: dict[str, list[str]] = {}
    for name in sorted({*names}):
        groups.setdefault(_folded(name), []).append(name)
    for group in groups.values():
        if len(group) > 1:
            same = len({unicodedata.normalize("NFC", name) for name in group}) < len(group)
            each = (ascii(name) if same else f"'{shown(name)}'" for name in group)
            yield f"{' and '.join(each)} differ only in case or Unicode form"


def _folders(path: Path, passed: PassedOver) -> Iterator[Path]:
    """Yield the folders that may be classes."""
    for entry in _entries(path, passed):
        if entry.is_dir():
            yield path / entry.name
        else:
            passed.note(path / entry.name, IN_NO_CLASS)


def _images_in(folder: Path, passed: PassedOver) -> Iterator[Path]:
    """Yield the images directly in a folder."""
    for entry in _entries(folder, passed):
        if entry.is_dir():
            passed.note(folder / entry.name, IN_A_CLASS)
        elif _is_image(folder / entry.name, passed):
            yield folder / entry.name


def _entries(folder: Path, passed: PassedOver) -> Iterator[os.DirEntry[str]]:
    """Yield the files and folders in a folder that a user may have put there, in the order of
    names."""
    try:
        with os.scandir(folder) as opened:
            entries = sorted(opened, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {reason(error)}") from None
    for entry in entries:
        if why := _why_not(entry):
            passed.note(folder / entry.name, why)
        else:
            yield entry


def _why_not(entry: os.DirEntry[str]) -> str:
    """Return the reason to pass over an entry whatever it contains, "" if there is none."""
    if entry.name.startswith("."):
        return HIDDEN
    if entry.name.lower() in SYSTEM:
        return OF_SYSTEM
    try:
        return "" if entry.is_file() or entry.is_dir() else NOT_A_FILE
    except OSError:  # links in a circle
        return NOT_A_FILE


def _is_image(path: Path, passed: PassedOver) -> bool:
    if path.suffix.lower() in SUFFIXES:
        return True
    unsupported = path.suffix.lower() in UNSUPPORTED_SUFFIXES
    passed.note(path, UNSUPPORTED if unsupported else NOT_AN_IMAGE)
    return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _alike(path: Path, names: Sequence[str]) -> Iterator[str]:
    for text in alike(names):
        yield f"{shown(path)}: the classes {text}: rename them if they are one class"


def _missing(path: Path, names: Sequence[str], taken: Sequence[str]) -> Iterator[str]:
    missing = [name for name in names if name not in taken]
    if missing:
        counts = f"{len(missing)} of {len(names)} classes"
        yield f"{shown(path)}: found no image of {counts}: {first(missing)}"


def _nothing(path: Path, folders: int, classes: Sequence[str]) -> str:
    expected = "expected a folder of images per class"
    if classes:
        return f"{path}: found no image of a class, {expected}: {first(classes)}"
    there = f"{folders} {'folder' if folders == 1 else 'folders'} without an image"
    return f"{path}: found {there if folders else 'no folders'}, {expected}"

"""The names of the files that together hold the weights of one net. Caffe writes them with commas:
`--weights conv.caffemodel,ip.caffemodel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nets.errors import NetError
from nets.regular import is_file

Named = str | Path | Sequence[str | Path]  # the weights of one net, as a user names them


def parts_of(
    named: Named, exists: Callable[[str], bool] = lambda name: is_file(Path(name))
) -> tuple[str, ...]:
    """Return the names of the files that together hold the weights of one net.

    A text with commas names one file if a file of this whole name `exists`, otherwise one file
    between each two commas. A sequence has such texts. A Path is always one file. Raises NetError
    for an empty name.
    """
    if isinstance(named, Path):
        return (str(named),)
    if not isinstance(named, str):
        return tuple(part for each in named for part in parts_of(each, exists))
    if "," not in named or exists(named):
        return (named,)
    parts = tuple(part.strip() for part in named.split(","))
    if not all(parts):
        raise NetError(
            f"'{named}': found an empty name next to a comma, expected FILE,FILE,... with the "
            "files of one net"
        )
    return parts


def names(files: Sequence[Path]) -> str:
    """Return the names of these files for a message, without their folders."""
    return ", ".join(file.name for file in files)

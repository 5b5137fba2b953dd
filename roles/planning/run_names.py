"""The name of a run that cluster.toml does not name: its net, or the folder of its net."""

from __future__ import annotations

import re
from pathlib import Path

from nets import NetSpec

# names of files that say nothing about the net in them
COMMON = ("deploy", "model", "net", "train", "train_test", "train_val", "trainval")
LONGEST = 64  # characters, as in `run.name`


def name_of(net: NetSpec) -> str:
    """The name of the net's file without its ending, or of its zoo entry without its arguments. If
    many nets have a file of this name, such as train_val.prototxt: the name of its folder. "" if
    none of both can be part of a file name."""
    path = net.path.absolute()
    stem = Path(path.name.partition("(")[0]).stem
    if stem.lower() in COMMON:
        stem = path.parent.name or stem
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")
    return plain[:LONGEST].rstrip("._-")

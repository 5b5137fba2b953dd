"""Named arrays in one safetensors file, written so that a crash leaves the old file or the new one.

The metadata hold a SHA-256 of everything else: what a disk or a copy has changed is refused. Files of version "1" have
none and are read without that check.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from nets.errors import CheckpointError
from nets.files.binary import replacing

VERSION, UNCHECKED = "2", "1"
KEY = "convoy_checkpoint"
SUM = "sha256"


def save(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write `arrays` and `metadata` to `path` at once: temporary file beside it, fsync, rename, fsync of the
    directory.

    OSError: no such directory, the disk is full; the temporary file is then gone. Other threads go on meanwhile: the
    file is written without the interpreter's lock, which making its 500 MB in memory held for half a second.
    """
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    # one key only: safetensors writes several in random order, and equal checkpoints shall be equal files
    said = {"version": VERSION, **metadata}
    facts = json.dumps({**said, SUM: _sum_of(contiguous, said)}, sort_keys=True)
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, {KEY: facts})
        except SafetensorError as error:
            raise OSError(f"{path}: {error}") from None


def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return (arrays, metadata) of a file that `save` wrote; CheckpointError if it is missing, damaged or foreign."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _facts((file.metadata() or {}).get(KEY, ""))
            version = metadata.get("version")
            if version not in (VERSION, UNCHECKED):
                found = "none" if version is None else f"'{version}'"
                raise CheckpointError(f"{path.name}: found {KEY} version {found}, expected '{VERSION}'")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            written = metadata.pop(SUM, "")
            if version == VERSION and written != _sum_of(arrays, metadata):
                raise CheckpointError(f"{path.name}: damaged: its content does not fit its SHA-256; use another one")
            del metadata["version"]
            return arrays, metadata
    except (SafetensorError, OSError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path.name}: damaged or not a checkpoint: {error}") from None


def _facts(text: str) -> dict[str, str]:
    """The file's metadata; empty if it is not what `save` wrote."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _sum_of(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Of the metadata and each array's name, type, shape and bytes, in the order of names. 500 MB take 0.7 s."""
    found = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.reshape(-1).view(np.uint8).data)  # without the interpreter's lock
    return found.hexdigest()

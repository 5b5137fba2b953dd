"""Named arrays in one safetensors file, written so that a crash leaves the old file or the new one."""

from __future__ import annotations

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
from nets.regular import size_of

VERSION = "1"
KEY = "convoy_checkpoint"


def save(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write `arrays` and `metadata` to `path` at once: temporary file beside it, fsync, rename, fsync of the
    directory.

    OSError: no such directory, the disk is full; the temporary file is then gone. Other threads go on meanwhile: the
    file is written without the interpreter's lock, which making its 500 MB in memory held for half a second.
    """
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    # one key only: safetensors writes several in random order, and equal checkpoints shall be equal files
    facts = json.dumps({"version": VERSION, **metadata}, sort_keys=True)
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, {KEY: facts})
        except SafetensorError as error:
            raise OSError(f"{path}: {error}") from None


def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return (arrays, metadata) of a file that `save` wrote; CheckpointError if it is missing, damaged or foreign."""
    try:
        if not size_of(path):
            raise CheckpointError(f"{path.name}: found an empty file, expected a checkpoint")
        with safe_open(path, framework="numpy") as file:
            metadata = _facts((file.metadata() or {}).get(KEY, ""))
            version = metadata.pop("version", None)
            if version != VERSION:
                found = "none" if version is None else f"'{version}'"
                raise CheckpointError(f"{path.name}: found {KEY} version {found}, expected '{VERSION}'")
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except OSError as error:
        reason = f"cannot be read: {error.strerror}" if error.strerror else f"damaged or not a checkpoint: {error}"
        raise CheckpointError(f"{path.name}: {reason}") from None
    except (SafetensorError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path.name}: damaged or not a checkpoint: {error}") from None


def _facts(text: str) -> dict[str, str]:
    """The file's metadata; empty if it is not what `save` wrote."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}

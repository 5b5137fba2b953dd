"""Files of weights that torch's programs write: .safetensors, and .pth or .pt where torch is
installed. A .pth is read by torch itself, which is told to run no code of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from nets.errors import CheckpointError
from nets.files.binary import replacing
from nets.files.checkpoint import KEY
from nets.files.extras import need
from nets.reasons import reason
from nets.regular import opened, read_bytes

PICKLED = (".pth", ".pt")
MOST_BYTES = 1 << 36
MOST_HEADER = 100_000_000  # bytes; safetensors' own limit
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
INSIDE = ("state_dict", "model", "model_ema", "state_dict_ema")  # keys around the weights
WRAPPED = "module."  # in front of all names of a net that DataParallel has wrapped


def is_torchs(path: Path) -> bool:
    """Whether this is a .safetensors that Convoy has not written, or a .pth. False for files that
    are damaged or missing: the reader of checkpoints reports them."""
    if path.suffix in PICKLED:
        return True
    if path.suffix != ".safetensors":
        return False
    try:
        with opened(path) as file:
            size = int.from_bytes(file.read(8), "little")
            said = json.loads(file.read(size)) if size <= MOST_HEADER else None
        return isinstance(said, dict) and KEY not in said.get("__metadata__", {})
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return False


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of real numbers in a file for which `is_torchs` is true. Half precision
    becomes float32. Raises CheckpointError if it is damaged, and DataError if torch is missing."""
    found = _unpickled(path) if path.suffix in PICKLED else _deserialized(path)
    if not found:
        raise CheckpointError(f"{path}: found no array of real numbers, expected weights")
    bare = {name.removeprefix(WRAPPED): array for name, array in found.items()}
    return bare if all(name.startswith(WRAPPED) for name in found) else found


def write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file that torch's programs read. Raises DataError for a .pth if torch is missing."""
    if path.suffix in PICKLED:
        torch = need("torch", f"{path}: writing a file of this kind")
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        with replacing(path) as temporary:
            torch.save(tensors, temporary)
        return
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(save(whole, {"format": "pt"}))


def _deserialized(path: Path) -> dict[str, NDArray[Any]]:
    try:
        parts: Any = deserialize(read_bytes(path, MOST_BYTES))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from None
    except SafetensorError as error:
        raise CheckpointError(f"{path}: damaged: {error}") from None
    found: dict[str, NDArray[Any]] = {}
    for name, said in sorted(parts, key=lambda part: _natural(part[0])):
        kind = said["dtype"]
        if kind.startswith(("I", "U", "BOOL")):
            continue  # counters and masks
        if kind not in KINDS:
            raise CheckpointError(
                f"{path}: '{name}': found numbers of type {kind}, expected one of "
                f"{', '.join(KINDS)}"
            )
        flat = np.frombuffer(said["data"], KINDS[kind])
        if kind == "BF16":
            flat = (flat.astype("<u4") << 16).view("<f4")
        found[name] = _wide(flat).reshape(said["shape"])
    return found


def _unpickled(path: Path) -> dict[str, NDArray[Any]]:
    torch = need("torch", f"{path}: reading a file of this kind")
    try:
        with opened(path) as file:
            said = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {reason(error)}") from None
    except Exception as error:  # noqa: BLE001  # torch raises many kinds of errors
        first = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"{path}: torch refuses it with weights_only=True: {type(error).__name__}: {first}"
        ) from None
    for key in INSIDE:
        if isinstance(said, Mapping) and isinstance(said.get(key), Mapping):
            said = said[key]
    tensors = said.items() if isinstance(said, Mapping) else ()
    return {
        str(name): _wide(tensor.detach().to(torch.float32).numpy())
        if tensor.dtype == torch.bfloat16
        else _wide(tensor.detach().numpy())
        for name, tensor in tensors
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
    }


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts layer 2 before layer 10. safetensors gives arrays in any order."""
    return [(int(part) if part.isdecimal() else -1, part) for part in name.split(".")]


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) if array.dtype.itemsize < 4 else np.array(array)

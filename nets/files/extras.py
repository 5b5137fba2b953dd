"""Packages that only some files need: imported when such a file is met, with a sentence that says
what to install."""

from importlib import import_module
from typing import Any

from nets.errors import DataError

EXTRAS = {
    "lmdb": "caffe",
    "h5py": "caffe",
    "simplejpeg": "images",
    "PIL.Image": "images",
    "onnx": "onnx",
}


def need(module: str, purpose: str) -> Any:
    """Return `module`, one of EXTRAS; DataError naming the extra when it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = "pillow" if module.startswith("PIL") else module
        raise DataError(
            f"{purpose} needs the package '{package}', which is not installed: "
            f'pip install "convoy-runtime[{EXTRAS[module]}]"'
        ) from None

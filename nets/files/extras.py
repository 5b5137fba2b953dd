"""Packages that only some files need. They are imported when such a file is met; the error names
the package to install."""

from importlib import import_module
from typing import Any

from nets.errors import DataError

EXTRAS = {
    "lmdb": "caffe",
    "h5py": "caffe",
    "simplejpeg": "images",
    "PIL.Image": "images",
    "onnx": "onnx",
    "torch": "reference",
}


def need(module: str, purpose: str) -> Any:
    """Return `module`, one of EXTRAS. Raises DataError with the extra if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = "pillow" if module.startswith("PIL") else module
        raise DataError(
            f"{purpose} needs the package '{package}', which is not installed: "
            f'pip install "convoy-runtime[{EXTRAS[module]}]"'
        ) from None

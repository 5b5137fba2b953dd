"""The messages of libtiff, which Pillow calls: they would otherwise be written to stderr."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

MOST = 500  # bytes of a message
MOST_KEPT = 10  # messages about a file


class _Kept(threading.local):
    """The messages of the file that this thread decodes."""

    def __init__(self) -> None:
        self.messages: list[str] = []


_KEPT = _Kept()


@contextmanager
def messages() -> Iterator[list[str]]:
    """Give the list of libtiff's messages about errors, which grows while this thread decodes.

    If Pillow's libtiff is out of reach, such as in a library without symbols, the list stays empty
    and the messages go to stderr.
    """
    _keep_messages()
    _KEPT.messages = []
    yield _KEPT.messages


@cache
def _keep_messages() -> None:
    """Install the handler of errors in the process, once. Pillow has already silenced warnings."""
    library = ctypes.CDLL(import_module("PIL._imaging").__file__)  # and the libraries it needs
    install = getattr(library, "TIFFSetErrorHandler", None)
    if install is not None:
        install.restype = ctypes.c_void_p
        install(_HANDLER)


def _keep(module: bytes | None, text: bytes, arguments: int) -> None:
    line = ctypes.create_string_buffer(MOST)
    ctypes.CDLL(None).vsnprintf(line, ctypes.c_size_t(MOST), text, ctypes.c_void_p(arguments))
    said = line.value.decode(errors="replace").rstrip(".: \n")
    if len(_KEPT.messages) < MOST_KEPT:
        _KEPT.messages.append(f"{module.decode(errors='replace')}: {said}" if module else said)


# a function of the part of libtiff, a format of printf and its va_list
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)(_keep)

"""The registry of functions that convert operators of ONNX to layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nets.errors import NetError
from nets.imported.layers_made import Step, Unsupported

Converter: TypeAlias = Callable[[Step], None]
CONVERTERS: dict[str, Converter] = {}


def converts(*kinds: str) -> Callable[[Converter], Converter]:
    """Register a function that converts operators of these kinds."""

    def register(converter: Converter) -> Converter:
        for kind in kinds:
            CONVERTERS[kind] = converter
        return converter

    return register


# Operators that nets of images have, with the reason why no layer computes them
REASONS = {
    "If": "a branch that depends on numbers cannot be a net of layers",
    "Loop": "a loop cannot be a net of layers",
    "Scan": "a loop cannot be a net of layers",
    "Einsum": "products of two computed arrays have no layer",
    "LSTM": "recurrent layers are not read from ONNX files",
    "GRU": "recurrent layers are not read from ONNX files",
    "RNN": "recurrent layers are not read from ONNX files",
    "NonMaxSuppression": "detection is not trained here",
    "TopK": "detection is not trained here",
    "GridSample": "sampling at computed places has no layer",
}


def convert(step: Step) -> None:
    """Add the layers of one node. Raises Unsupported with the reason."""
    converter = CONVERTERS.get(step.node.kind)
    if converter is None:
        raise Unsupported(REASONS.get(step.node.kind, "no layer computes this operator"))
    try:
        converter(step)
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
        if isinstance(error, NetError):
            raise
        # an attribute of another type, or a number that no layer can have
        raise Unsupported(f"an attribute or a constant does not fit: {error}") from None

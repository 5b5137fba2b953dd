"""The zoo's nets in Python, by name: "resnet18", or "resnet18(classes=10, image=64)"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from nets.errors import PrototxtError, did_you_mean

# the functions, each of which takes numbers and returns a net
NETS: Mapping[str, str] = {
    "convnext_tiny": "nets.zoo.convnext:convnext_tiny",
    "densenet121": "nets.zoo.densenet:densenet121",
    "efficientnet_b0": "nets.zoo.mobilenet:efficientnet_b0",
    "mobilenet_v2_tv": "nets.zoo.mobilenet:mobilenet_v2_tv",
    "mobilenet_v3_large": "nets.zoo.mobilenet:mobilenet_v3_large",
    "mobilenet_v3_small": "nets.zoo.mobilenet:mobilenet_v3_small",
    "regnet_y_400mf": "nets.zoo.regnet:regnet_y_400mf",
    "resnet18": "nets.zoo.resnet:resnet18",
    "resnet34": "nets.zoo.resnet:resnet34",
    "resnet50_tv": "nets.zoo.resnet:resnet50_tv",
    "resnet56": "nets.zoo.resnet:resnet56",
    "resnext50_32x4d": "nets.zoo.resnet:resnext50_32x4d",
    "vgg16_bn": "nets.zoo.vgg:vgg16_bn",
}
_CALL = re.compile(r"(\w+)\s*(?:\((.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(\w+)\s*=\s*(\d{1,6})\s*")


def names_a_net(source: str) -> bool:
    """Whether the source is the name of a net in Python, with or without arguments."""
    call = _CALL.fullmatch(source)
    return call is not None and call[1] in NETS


def own_solver(source: str) -> str:
    """Return the name of the solver of a net in Python, "" for every other source."""
    call = _CALL.fullmatch(source)
    return f"{call[1]}_solver" if call is not None and call[1] in NETS else ""


def build(source: str) -> Any:
    """Return the NetBuilder of a net that `names_a_net` accepts. Raises PrototxtError for wrong
    arguments."""
    call = _CALL.fullmatch(source)
    assert call is not None
    module, _, name = NETS[call[1]].partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    known = list(inspect.signature(function).parameters)
    return function(**_arguments(source, call[2] or "", known))


def _arguments(source: str, text: str, known: list[str]) -> dict[str, int]:
    """Read "classes=10, image=64"."""
    found: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        said = _ARGUMENT.fullmatch(part)
        if said is None or said[1] not in known or said[1] in found or not int(said[2]):
            near = did_you_mean(said[1], known) if said and said[1] not in known else ""
            raise PrototxtError(
                f"{source}: found '{part.strip()}'{near}, expected {' and '.join(known)}, each at "
                f'most once and a whole number above 0, such as "{known[0]}=10"'
            )
        found[said[1]] = int(said[2])
    return found

"""The links of a worker to its model servers, with the layers of each and the way of their
gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ops import Backend
from roles.learning.tree import Parent
from roles.learning.wire_formats import PLAIN, Layers, Wire, WireFormat


@dataclass(frozen=True)
class ModelWay:
    """A model server in a worker's options. `server` holds `layers` (None: all). Their gradients go
    to `parent`, as part `part` of `parts`, in the format `wire`."""

    server: str
    layers: tuple[str, ...] | None
    parent: str
    part: int
    parts: int
    wire: WireFormat = PLAIN


def model_link(server: str, parent: Parent, layers: Sequence[str] | None = None) -> ModelWay:
    """The way of a server, which holds `layers` (None: all); their gradients go to `parent`."""
    return ModelWay(
        server, None if layers is None else tuple(layers), parent.name, parent.part, parent.parts
    )


def spread(sizes: Mapping[str, int], servers: int) -> list[list[str]]:
    """The layers of each of `servers`, in net order: the largest layers first, each to the server
    that holds least so far.

    The fullest server then holds at most 4/3 of its load in the best distribution (Graham, 1969).
    With no more servers than layers, every server has one.
    """
    held: list[dict[str, int]] = [{} for _ in range(servers)]
    for layer in sorted(sizes, key=lambda layer: -sizes[layer]):
        least = min(held, key=lambda layers: sum(layers.values()))
        least[layer] = sizes[layer]
    return [[layer for layer in sizes if layer in layers] for layers in held]


class ModelLink:
    """One server's layers on their way to and from a worker."""

    def __init__(self, way: ModelWay, layers: Layers, ops: Backend) -> None:
        wanted = way.layers
        self.server = way.server
        self.layers: Layers = {
            name: of for name, of in layers.items() if wanted is None or name in wanted
        }
        self.parent = Parent(way.parent, way.part, way.parts)
        self.wire = Wire(self.layers, ops, way.wire)

    def __repr__(self) -> str:
        return f"<{len(self.layers)} layers of {self.server}, gradients to {self.parent.name}>"

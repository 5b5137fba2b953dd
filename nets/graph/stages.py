"""The stages of a net: consecutive layers of which at most one has parameters. A worker pulls
parameters stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nets.graph.wiring import Node


@dataclass(frozen=True, eq=False)
class Stage:
    """Consecutive layers of which at most one has parameters. `layer` is its name, or None."""

    index: int
    layer: str | None
    layers: tuple[str, ...]
    nodes: tuple[Node, ...] = field(repr=False)


def cut(nodes: Sequence[Node], owned: Mapping[int, Sequence[int]]) -> list[Stage]:
    """Cut before every layer that owns parameters, except the first such layer."""
    groups: list[list[Node]] = []
    for node in nodes:
        taken = bool(groups) and any(owned[member.index] for member in groups[-1])
        if not groups or (owned[node.index] and taken):
            groups.append([])
        groups[-1].append(node)
    stages = []
    for index, group in enumerate(groups):
        owner = next((node.layer.name for node in group if owned[node.index]), None)
        stages.append(Stage(index, owner, tuple(node.layer.name for node in group), tuple(group)))
    return stages

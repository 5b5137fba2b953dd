"""Parameters that several layers share by name, their owners and the checks. In Caffe, a layer
names a parameter with `param { name: "w" }`.

The first layer that names a parameter owns it. Only the owner has values, a history and an update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nets.errors import NetError, PrototxtError
from nets.graph.wiring import Node
from nets.layers import Layer
from nets.schema import caffe_pb2 as caffe

Slot = tuple[int, int]  # (index of a layer, index of one of its parameters)


@dataclass(frozen=True)
class Sharing:
    """The parameters that layers borrow: `owner` maps each borrowed parameter to its owner's."""

    owner: dict[Slot, Slot]

    def owned(self, index: int, layer: Layer) -> list[int]:
        """Return the indices of the parameters that layer number `index` owns."""
        return [at for at in range(len(layer.params)) if (index, at) not in self.owner]


def share(layers: Sequence[Layer]) -> Sharing:
    """Find the owners. Multipliers that only a borrower gives become the owner's. Raises NetError
    with every mistake.

    The rules are those of Caffe's Net::AppendParam. Shapes must be equal; if the borrower has
    `share_mode: PERMISSIVE`, only sizes must be equal. Multipliers that several layers give must
    agree.
    """
    first: dict[str, Slot] = {}
    owner: dict[Slot, Slot] = {}
    given: dict[tuple[Slot, str], Layer] = {}  # the layers that gave the owners' multipliers
    problems: list[str] = []
    for slot, name in _named(layers):
        if name not in first:
            first[name] = slot
            continue
        owner[slot] = first[name]
        try:
            _merge(layers, name, first[name], slot, given)
        except NetError as error:
            problems += error.problems
    if problems:
        raise PrototxtError(problems)
    return Sharing(owner)


def _named(layers: Sequence[Layer]) -> Iterator[tuple[Slot, str]]:
    for index, layer in enumerate(layers):
        for at, given in enumerate(layer.proto.param):
            if given.name:
                yield (index, at), given.name


def _merge(
    layers: Sequence[Layer],
    name: str,
    mine: Slot,
    theirs: Slot,
    given: dict[tuple[Slot, str], Layer],
) -> None:
    """Check a borrower against the owner and give the owner the borrower's multipliers."""
    owner = layers[mine[0]]
    borrower = layers[theirs[0]]
    spec = owner.params[mine[1]]
    other = borrower.params[theirs[1]]
    loose = borrower.proto.param[theirs[1]].share_mode == caffe.ParamSpec.PERMISSIVE
    same = math.prod(spec.shape) == math.prod(other.shape) if loose else spec.shape == other.shape
    if not same:
        text = f"'{name}' has shape {other.shape} here, but {spec.shape} in layer '{owner.name}'"
        raise borrower.error(
            "param.name",
            (f"{text}, expected {'the same number of values' if loose else 'one shape'}"),
        )
    if owner.frozen != borrower.frozen:
        one, other_layer = (owner, borrower) if owner.frozen else (borrower, owner)
        text = (
            f"'{name}' is shared with layer '{owner.name}', but only '{one.name}' is frozen: "
            f"freeze '{other_layer.name}' too, or neither"
        )
        raise borrower.error("param.name", text)
    for key in ("lr_mult", "decay_mult"):
        if owner.proto.param[mine[1]].HasField(key):
            given[mine, key] = owner
        if not borrower.proto.param[theirs[1]].HasField(key):
            continue
        giver = given.get((mine, key))
        if giver is None:
            given[mine, key] = borrower
            spec = replace(spec, **{key: getattr(other, key)})
        elif getattr(spec, key) != getattr(other, key):
            text = (
                f"found {getattr(other, key):g} for shared '{name}', but "
                f"{getattr(spec, key):g} in '{giver.name}'"
            )
            raise borrower.error(f"param.{key}", text)
    owner.params[mine[1]] = spec


def check_cut(sharing: Sharing, nodes: Sequence[Node]) -> None:
    """Raise NetError for a parameter that both phases of a net share, because the phases may run on
    different machines."""
    for borrowed, owner in sharing.owner.items():
        mine = nodes[borrowed[0]]
        other = nodes[owner[0]]
        if mine.in_fc != other.in_fc:
            text = (
                f"shared with layer '{other.layer.name}' across the cut between conv and FC phase"
            )
            raise mine.layer.error("param.name", f"{text}: only a net that runs whole can share it")

"""A net that replays consecutive layers of a stage whose arrays stay where they are, if the backend
can record them (`nets.graph.replayed_layers`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from nets.graph.repeated_net import RepeatedNet
from nets.graph.replayed_layers import ReplayedLayers
from nets.graph.stages import Stage
from nets.graph.wiring import Node
from ops import Array


class Piece:
    """Consecutive nodes of a stage. `replayable`: they may be replayed. `read`: the values that
    forward reads; `bottoms` and `values`: those that backward makes gradients of, and reads."""

    def __init__(self, nodes: Sequence[Node], replayable: bool) -> None:
        self.nodes = list(nodes)
        self.replayable = replayable
        self.back = [node for node in reversed(self.nodes) if node.runs_back]
        made = {i for node in self.nodes for i in node.tops}
        self.tops = sorted(made)
        self.read = sorted({i for node in self.nodes for i in (*node.bottoms, *node.also)} - made)
        self.bottoms = sorted({i for node in self.back for i in node.bottoms})
        self.values = sorted({i for node in self.back for i in (*node.bottoms, *node.tops)})
        self.learned = any(node.layer.params and not node.layer.frozen for node in self.back)

    def __repr__(self) -> str:
        return f"<piece {', '.join(node.layer.name for node in self.nodes)}>"


@dataclass
class Tops:
    """The values that layers made, by index."""

    of: Mapping[int, Array]

    @property
    def arrays(self) -> list[Array | None]:
        """All of them."""
        return list(self.of.values())


@dataclass
class BottomGradients:
    """The gradients of values that layers read, in parts, by index."""

    of: Mapping[int, list[Array | None]]

    @property
    def arrays(self) -> list[Array | None]:
        """All of them."""
        return [part for parts in self.of.values() for part in parts]


class ReplayingNet(RepeatedNet):
    """A net that replays its layers, if it is whole and its memory is "reused". Parts of a net get
    arrays from messages, which a recording must not keep."""

    def _forward_nodes(self, nodes: Sequence[Node]) -> None:
        raise NotImplementedError

    def _backward_nodes(
        self, nodes: Sequence[Node], owner: str | None, out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        raise NotImplementedError

    @cached_property
    def replayed_layers(self) -> ReplayedLayers:
        """The recordings of layers at the present places in memory."""
        return ReplayedLayers(self.ops)

    @cached_property
    def _pieces(self) -> dict[Stage, list[Piece]]:
        return {}

    def _place(self) -> None:
        super()._place()
        self.replayed_layers.forget()
        self._pieces.clear()

    def _pieces_of(self, stage: Stage) -> list[Piece]:
        found = self._pieces.get(stage)
        if found is None:
            found = self._pieces[stage] = [
                Piece(list(nodes), replayable)
                for replayable, nodes in groupby(stage.nodes, self._replayable)
            ]
        return found

    def _replayable(self, node: Node) -> bool:
        if not (self._reuses and self.part == "all" and self.ops.replays_layers):
            return False
        fed = self._of_inputs & {*node.bottoms, *node.also}
        leaves = node in self._senders or node in self._receivers
        borrows = len(self._owned[node.index]) != len(node.layer.params)
        return node.layer.replayable and not (
            fed or leaves or borrows or any(node.layer.loss_weights)
        )

    @cached_property
    def _of_inputs(self) -> set[int]:
        """The values whose arrays are inputs, or views of inputs. Each pass has other ones."""
        found = {*self._inputs.values()}
        for node in self.nodes:
            if (node.layer.views or node.layer.in_place) and found & {*node.bottoms}:
                found |= {*node.tops}
        return found

    def _replay_forward(self, piece: Piece) -> None:
        def work() -> Tops:
            self._forward_nodes(piece.nodes)
            return Tops({i: self._given(i) for i in piece.tops})

        found = self.replayed_layers.compute(
            (piece, "forward"),
            [blob for node in piece.nodes for blob in self._parameters(node)],
            [self._given(i) for i in piece.read],
            work,
        )
        self._arrays.update(found.of)

    def _replay_backward(
        self, piece: Piece, owner: str | None, out: Sequence[Array] | None
    ) -> tuple[Array, ...]:
        gradients = self._gradients

        def work() -> BottomGradients:
            self._backward_nodes(piece.back, owner, out)
            return BottomGradients({i: gradients.parts(i) for i in piece.bottoms})

        found = self.replayed_layers.compute(
            (piece, "backward"),
            [*(blob for node in piece.back for blob in self._parameters(node)), *(out or ())],
            [
                *(self._given(i) for i in piece.values),
                *(part for i in piece.values for part in gradients.parts(i)),
            ],
            work,
        )
        for i, parts in found.of.items():
            gradients.put(i, parts)
        return tuple(out or ())

"""The outer model, and the copy of it that each island holds. Plain arrays, no messages are
sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ops import Backend
from roles.islands.island_messages import OuterModel
from roles.islands.merged_statistics import merged
from roles.islands.outer_step import OuterStep, mean_gain
from roles.islands.packed_model import Model, add_answer, copied, pack
from roles.learning.parameter_store import ParameterStore
from roles.learning.wire_formats import Layers, Wire, WireFormat
from roles.messages import Blobs


class Learned(NamedTuple):
    """What an island has learned: the gains of its parameters and its running statistics, and the
    rows that it trained on. The arrays may be written over."""

    model: Model
    rows: int


class OuterState:
    """The outer model of one server, in `store`, and the copies that islands hold.

    `wires`: island -> the format of the answers that it gets. A format that keeps errors carries
    differences: the next difference has the error of the last one. In other formats the whole model
    travels.
    """

    def __init__(
        self,
        store: ParameterStore,
        layers: Layers,
        ops: Backend,
        step: OuterStep,
        wires: Mapping[str, WireFormat],
    ) -> None:
        self._store = store
        self._layers = layers
        self._ops = ops
        self._step = step
        self._wires = {name: Wire(layers, ops, said) for name, said in wires.items()}
        plain = WireFormat(store.read(store.layers[0])[0].dtype.name)
        self._plain = Wire(layers, ops, plain)
        self._coarse = {name for name, said in wires.items() if said.format != plain.format}
        self._held: dict[str, Model] = {}
        self.all_hold_it()

    def __repr__(self) -> str:
        return f"<outer model for {len(self._wires)} islands, {self._step!r}>"

    def all_hold_it(self) -> None:
        """Note that every island holds the present outer model."""
        self._held = {name: copied(self._ops, self._model) for name in self._coarse}

    def go_on_from(self, model: Model) -> None:
        """Take this outer model, which is not known to be the one that any island holds."""
        for layer, blobs in self._model.items():
            for mine, array in zip(blobs, model[layer], strict=True):
                mine[...] = array
        self._held = {}

    def merge(self, learned: Sequence[Learned], share: float) -> None:
        """Take one outer step with what islands have learned, in this order. `share`: the part of a
        period's samples that these islands trained on."""
        rows = [each.rows for each in learned]
        if not any(rows):
            return
        for layer, blobs in self._model.items():
            parts = [each.model[layer] for each in learned]
            if all(is_learned for _, is_learned in self._layers[layer]):
                self._step.apply(layer, blobs, mean_gain(parts, rows), share)
            else:
                self._merge_statistics(blobs, parts, rows, share)

    def _merge_statistics(
        self, blobs: Blobs, parts: Sequence[Blobs], rows: Sequence[int], share: float
    ) -> None:
        """Islands count as much as they trained of a period. The rest is the outer model's."""
        new = min(1.0, share)
        shares = [1.0 - new, *(new * count / sum(rows) for count in rows)]
        for blob, array in zip(blobs, merged([blobs, *parts], shares), strict=True):
            blob[...] = array

    def answers(self, islands: Sequence[str], version: int) -> dict[str, OuterModel]:
        """The answer to each of these islands, which then holds the outer model."""
        whole = None
        found = {}
        for name in islands:
            if name in self._held:
                found[name] = self._difference(name, version)
                continue
            if name in self._coarse:
                found[name] = self.whole_for(name, version)
                continue
            whole = whole or self._whole(version)
            found[name] = whole
        return found

    def whole_for(self, island: str, version: int) -> OuterModel:
        """The answer to an island that asks for the whole outer model, which it then holds."""
        if island in self._coarse:
            self._held[island] = copied(self._ops, self._model)
        return self._whole(version)

    def _whole(self, version: int) -> OuterModel:
        packed = pack(self._plain, copied(self._ops, self._model))
        return OuterModel(version=version, whole=True, **packed._asdict())

    def _difference(self, island: str, version: int) -> OuterModel:
        """The encoded difference of the outer model from the island's copy, which changes by it."""
        held = self._held[island]
        model = {
            layer: tuple(
                x - h if is_learned else x.copy()
                for x, h, (_, is_learned) in zip(
                    blobs, held[layer], self._layers[layer], strict=True
                )
            )
            for layer, blobs in self._model.items()
        }
        wire = self._wires[island]
        wire.errors.take_back({})  # the island's copy has the error, so the difference has it
        packed = pack(wire, model)
        answer = OuterModel(version=version, whole=False, **packed._asdict())
        add_answer(wire, self._layers, held, answer)
        return answer

    @property
    def _model(self) -> dict[str, Blobs]:
        return {layer: self._store.read(layer) for layer in self._store.layers}

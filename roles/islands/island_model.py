"""The model of one island: what it has gained since it last held the outer model, and the way to
the next outer model. Plain arrays, no messages are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ops import Array, Backend
from roles.islands.island_messages import OuterModel
from roles.islands.packed_model import Model, Packed, add_answer, copied, copy_of, pack
from roles.learning.buffers import KeptErrors
from roles.learning.parameter_store import ParameterStore
from roles.learning.wire_formats import Layers, Wire, WireFormat
from roles.messages import Blobs

HISTORY = ".history"  # in the names of histories in a checkpoint


class IslandModel:
    """The parameters in `store`, which the island trains, and its copy of the outer model in host
    memory. `ops` is the backend of the store, `host` that of arrays that travel."""

    def __init__(
        self, store: ParameterStore, layers: Layers, ops: Backend, host: Backend, said: WireFormat
    ) -> None:
        self._store = store
        self._layers = layers
        self._ops = ops
        self._host = host
        self._wire = Wire(layers, host, said)
        plain = WireFormat(store.read(store.layers[0])[0].dtype.name)
        self._plain = Wire(layers, host, plain)
        self._held: dict[str, Blobs] = {}
        self._sent: dict[str, Blobs] = {}  # the parameters when the last gain was made
        self._steps = 0  # local steps since then
        self.holds_outer()

    def __repr__(self) -> str:
        return f"<island's model, {self._steps} steps since the last gain>"

    @property
    def errors(self) -> KeptErrors:
        """The parts of gains that the format left out so far."""
        return self._wire.errors

    def held(self) -> Packed:
        """The outer model that is held, as it is."""
        return pack(self._plain, copied(self._host, self._held))

    def holds_outer(self) -> None:
        """Note that the store has the outer model."""
        self._held = copied(self._host, self._read())
        self._steps = 0

    def stepped(self) -> None:
        """Note a local step."""
        self._steps += 1

    @property
    def trained(self) -> bool:
        """True if there was a local step since the store last had the model that is held."""
        return bool(self._steps)

    def gain(self) -> Packed:
        """What the island has learned since the last answer, encoded. The island goes on
        learning."""
        self._sent = copied(self._host, self._read())
        self._steps = 0
        return pack(self._wire, dict(self._gains()))

    def _gains(self) -> Iterator[tuple[str, Blobs]]:
        for layer, blobs in self._sent.items():
            yield (
                layer,
                tuple(
                    self._gained(x, held) if is_learned else x
                    for x, held, (_, is_learned) in zip(
                        blobs, self._held[layer], self._layers[layer], strict=True
                    )
                ),
            )

    def _gained(self, x: Array, held: Array) -> Array:
        gained = copy_of(self._host, x)
        gained -= held
        return gained

    def take(self, answer: OuterModel) -> None:
        """Go on from the outer model. Steps since the gain was made are kept: the parameters change
        by what the outer model has in addition to the parameters at that time, and the running
        statistics stay, which have seen these steps. So the next gain has them, even if an answer
        takes as long as a period."""
        add_answer(self._wire, self._layers, self._held, answer)
        for layer, blobs in self._held.items():
            places = self._store.in_place(layer, histories=False)
            for at, (place, held) in enumerate(zip(places, blobs, strict=True)):
                _, is_learned = self._layers[layer][at]
                if not self._steps:
                    place[...] = self._ops.asarray(held)
                elif is_learned:
                    place += self._ops.asarray(held - self._sent[layer][at])

    def take_whole(self, answer: OuterModel) -> None:
        """Go on from the outer model. Steps that are in no gain are lost."""
        self._steps = 0
        self.take(answer)

    def _read(self) -> Model:
        return {
            layer: tuple(map(self._ops.to_host, self._store.read(layer)))
            for layer in self._store.layers
        }


class KeptHistories:
    """The solver's histories of an island, which an exchange does not change. A checkpoint has them
    under the island's name."""

    def __init__(self, store: ParameterStore) -> None:
        self._store = store

    def set_aside(self) -> dict[str, Array]:
        """Copy all histories."""
        return histories_of(self._store)

    def take_back(self, kept: Mapping[str, Array]) -> None:
        """Go on from a copy. Histories that are not in it stay."""
        version = max(self._store.versions.values(), default=0)
        self._store.restore(self._store.state() | dict(kept), version)


def histories_of(store: ParameterStore) -> dict[str, Array]:
    """Copies of the solver's histories, by their names in a checkpoint."""
    return {name: array for name, array in store.state().items() if HISTORY in name}

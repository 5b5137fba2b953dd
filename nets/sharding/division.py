"""The passes of one of n servers that divide the FC phase of a net by output units.

Sources: One weird trick, section 4; Omnivore D.4.2.

Shard j has rows [low, high) of every InnerProduct's weight and bias. It computes its columns of
each InnerProduct and gets the columns of the other shards. Every shard computes all other layers
whole: dropout masks, labels and losses are those of the whole net. In the backward pass, the
gradient behind the last InnerProduct is whole. Before it, a shard has the part of a gradient that
comes through its own units, and the parts of all shards add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nets.definition.spec import NetSpec
from nets.errors import NetError
from nets.graph.emulated_net import EmulatedNet
from nets.graph.graph import Net
from nets.layers.base import Shape
from nets.sharding.sharded_net import Blobs, Shard, Slot
from nets.sharding.slices import link_net, unit_parts, units
from ops import Array, Backend


class ShardedNet(Shard):
    """Shard number `rank` of `of` shards of a net's FC phase, made of nets of class `kind`.

    The other options are Net's. Raises NetError as `chain_of` does. One pass, link by link, where E
    is the same exchange among all shards:

        begin, feed `inputs`, load every layer of `params`
        forward(0) -E-> gather(0, columns of all) ... forward(last)
        backward(last), give(last - 1, parts) ... backward(k), E, give(k - 1, parts)
            ... backward(0); grad(input)
    """

    def __init__(
        self,
        spec: NetSpec,
        phase: str,
        *,
        rank: int,
        of: int,
        ops: Backend,
        batch: int | None = None,
        input_shape: Shape | Mapping[str, Shape] | None = None,
        seed: int = 0,
        dtype: Any = np.float32,
        level: int | None = None,
        stages: tuple[str, ...] = (),
        memory: str = "kept",
        kind: type[Net] = Net,
    ) -> None:
        super().__init__(
            spec.for_phase(phase, level=level, stages=stages),
            phase,
            rank=rank,
            of=of,
            ops=ops,
            batch=batch,
            input_shape=input_shape,
            seed=seed,
            dtype=dtype,
        )
        self._kind = kind
        options: dict[str, Any] = {"ops": ops, "seed": seed, "dtype": dtype, "memory": memory}
        self.nets = [
            self._net(link, level=level, stages=stages, **options)
            for link in range(len(self._links))
        ]
        self.params = {layer: params for net in self.nets for layer, params in net.params.items()}
        self.frozen = {layer: params for net in self.nets for layer, params in net.frozen.items()}
        self._gathered: dict[int, Array] = {}
        self._parts: dict[Slot, Array] = {}  # parts of this pass's gradients

    def initial_blobs(self) -> dict[str, Blobs]:
        """Return the first parameters (see Shard). Emulated nets return only their shapes, because
        drawing CaffeNet's numbers takes seconds."""
        if issubclass(self._kind, EmulatedNet):
            return {
                layer: blobs for net in self.nets for layer, blobs in net.initial_blobs().items()
            }
        return super().initial_blobs()

    def cut_units(self, parts: int) -> None:
        """Cut as Net.cut_units does, as if `parts` shards divided all units (`unit_parts`)."""
        for link, net in enumerate(self.nets[: self.last]):
            mine = unit_parts(self._total(link), parts, self.rank, self.of)
            net.cut_units(lambda _, mine=mine: mine)  # type: ignore[misc]

    # one pass

    def begin(self, step: int, rows: tuple[int, int] | None = None, *more: tuple[int, int]) -> None:
        """Start a pass in every link, as Net.begin does."""
        for net in self.nets:
            net.batch = self.batch
            net.begin(step, rows, *more)

    def feed_rows(self, name: str, array: Any) -> None:
        """Give one of `inputs` to the links that read it, as Net.feed_rows does."""
        readers = [net for net in self.nets if name in net.inputs]
        if name not in self.inputs or not readers:
            raise NetError(
                f"input '{name}': no such blob crosses the cut, expected {', '.join(self.inputs)}"
            )
        for net in readers:
            net.feed(name, array)

    def load(self, layer: str, blobs: Sequence[Array]) -> None:
        """Give a layer this shard's part of its parameters, as Net.load does."""
        home = next((net for net in self.nets if layer in net.params), self.nets[0])
        home.load(layer, blobs)

    def fix(self, blobs: Mapping[str, Sequence[Array]]) -> None:
        """Give the whole parameters of frozen layers, as Net.fix does. The shard takes its part."""
        for net in self.nets:
            net.fix({layer: self.parts_of(layer, blobs[layer]) for layer in net.frozen})

    def forward(self, link: int) -> Array | None:
        """Run a link. Returns this shard's columns of the InnerProduct at its end, which are new in
        every pass."""
        net = self.nets[link]
        for stage in net.stages:
            net.forward(stage)
        return net.blob(self._name(link)) if link < self.last else None

    def gather(self, link: int, columns: Sequence[Array]) -> None:
        """Give the next link the columns of all shards, in the order of their ranks."""
        parts = [self.ops.asarray(part, self.dtype) for part in columns]
        found = [part.shape[-1:] for part in parts]
        widths = [(self._width(link, rank),) for rank in range(self.of)]
        if found != widths:
            raise NetError(
                f"columns of '{self._name(link)}': found {found} of them, expected {widths}"
            )
        self.nets[link + 1].feed(
            self._name(link), parts[0] if self.of == 1 else self._joined(link, parts)
        )

    def backward(self, link: int, out: Mapping[str, Blobs] | None = None) -> dict[str, Blobs]:
        """Run a link backward. Returns its parameters' gradients, new or in the arrays of `out`."""
        net = self.nets[link]
        found: dict[str, Blobs] = {}
        for stage in reversed(net.stages):
            into = out[stage.layer] if out is not None and stage.layer is not None else None
            gradients = net.backward(stage, into)
            if stage.layer is not None:
                found[stage.layer] = gradients
        self._parts = {(layer, at): found[layer][at] for layer, at in self.partial(link)}
        return found

    def parts(self, link: int) -> list[Blobs]:
        """Return the gradient of the InnerProduct before `link`, by columns, after backward(link).
        Each is a new array.

        If `exchanges(link)`, the result has, for each shard, this shard's part of the gradient of
        that shard's columns and of the parameters in `partial(link)`. Otherwise it has the gradient
        of this shard's own columns. Without columns if nothing there learns.
        """
        columns: list[Blobs] = [
            () for _ in (range(self.of) if self.exchanges(link) else [self.rank])
        ]
        if self._flows(link):
            whole = self.nets[link].grad(self._name(link - 1))
            ranks = range(self.of) if self.exchanges(link) else [self.rank]
            columns = [(self._columns(whole, link - 1, rank),) for rank in ranks]
        others = tuple(self._copy(part) for part in self._parts.values())
        return [(*own, *others) for own in columns]

    def give(self, link: int, parts: Sequence[Sequence[Array]]) -> dict[Slot, Array]:
        """Give `link` the gradient of its columns: the sum of all shards' parts, in the order of
        ranks.

        Returns the sums of the other parts, the gradients of `partial(link + 1)`.
        """
        sums = [self._sum(arrays) for arrays in zip(*parts, strict=True)]
        if self._flows(link + 1):
            self.nets[link].set_grad(self._name(link), sums.pop(0))
        return dict(zip(self.partial(link + 1), sums, strict=True))

    def grad_rows(self, name: str) -> Array:
        """Return this shard's part of the gradient of an input, after backward(0)."""
        return self.nets[0].grad(name)

    def scalars(self) -> dict[str, float]:
        """Return the scores of all links, as Net.scalars does."""
        return {name: value for net in self.nets for name, value in net.scalars().items()}

    def label_counts(self) -> tuple[int, ...]:
        """Return the counts of the last link that has some, as Net.label_counts does."""
        return next(filter(None, (net.label_counts() for net in reversed(self.nets))), ())

    # inside

    def _net(self, index: int, **options: Any) -> Net:
        link = self._links[index]
        values = [self._wiring.values[i] for i in link.inputs]
        count = self._width(index, self.rank) if link.dense is not None else 0
        return link_net(
            self._kind, self.spec, self.phase, link, values, count, batch=self.batch, **options
        )

    def _joined(self, link: int, parts: Sequence[Array]) -> Array:
        """Return the columns joined to one array, which is kept between passes."""
        shape = (*parts[0].shape[:-1], self._total(link))
        whole = self._gathered.get(link)
        if whole is None or whole.shape != shape:
            whole = self._gathered[link] = self.ops.empty(shape, self.dtype)
        for rank, part in enumerate(parts):
            low, high = units(rank, self.of, shape[-1])
            self.ops.copy(part, whole[..., low:high])
        return whole

    def _sum(self, parts: Sequence[Array]) -> Array:
        arrays = [self.ops.asarray(part, self.dtype) for part in parts]
        return (
            arrays[0]
            if len(arrays) == 1
            else self.ops.add_all(arrays, self.ops.empty(arrays[0].shape, self.dtype))
        )

    def _copy(self, array: Array) -> Array:
        copy = self.ops.empty(array.shape, self.dtype)
        return self.ops.copy(array, copy)

    def _columns(self, whole: Array, link: int, rank: int) -> Array:
        low, high = units(rank, self.of, self._total(link))
        return whole if high - low == whole.shape[-1] else self._copy(whole[..., low:high])

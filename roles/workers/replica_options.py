"""The options of a replica: what it sends, computes and holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from nets import Net
from roles.base.loads import Load, Loads, first_passes, layers_in
from roles.base.role import Anew, Held, Sent, SummingOptions
from roles.base.shapes import Read, Shapes
from roles.base.sizes import leaving
from roles.base.steps import Key, Step, Steps, Turn, Work
from roles.exchange.buckets import Bucket, buckets_of
from roles.exchange.chosen_exchange import Chosen
from roles.learning.micro_batches import WorkerNet
from roles.learning.recordings import kept_plain
from roles.workers.single import WholeOptions
from runtime.plan.forecast import HOST


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions(WholeOptions):
    """The job, the exchange that sums, and the coordinator's name.

    `atomic`: parameters are updated only when all sums of an iteration have arrived. Every survivor
    of a death then has a model of whole iterations. `timed`: see `Exposure`.
    """

    anew: ClassVar[Anew] = Anew.FROM_PEER
    spread: ClassVar[bool] = True
    exchange: Chosen
    atomic: bool = False
    timed: bool = False

    @property
    def shares_gpu(self) -> str:
        """Its GPU, if the exchange takes arrays there."""
        return self.gpu if self.exchange.reads_device else ""

    def sends(self, name: str, shapes: Shapes) -> Sent:
        """The messages of the exchange, bucket by bucket."""
        for size in self.summed(shapes):
            yield from self.exchange.options.sends(name, size, shapes)

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        """The steps of `Replica`. All pieces are queued at once, so updates come after the last of
        them."""
        yield Step((name, "begin"), since=((name, "end"),))
        yield from self.learned(name, shapes, turn, (name, "begin"), "forward")

    def learned(self, name: str, shapes: Shapes, turn: Turn, above: Key, first: str) -> Steps:
        """The steps from `above` on: the pieces that each end with a bucket, then sums and updates.
        `first` is the label of the first piece."""
        rows = -(-shapes.rows(name) // self.job.passes)
        passes = self.job.passes
        if passes > 1:
            for number in range(passes):
                work = Work("pass" if number else "forward", rows)
                yield Step((name, "pass", str(number)), work, (above,))
                above = (name, "pass", str(number))
        sums = self.sums(shapes, turn)
        for bucket in range(len(sums)):
            yield Step(
                (name, "bucket", str(bucket)), Work("backward" if bucket else first, rows), (above,)
            )
        clips = self.job.solver_spec.clips
        done = []
        summed = tuple((name, "summed", str(bucket)) for bucket in range(len(sums)))
        for bucket, size in enumerate(sums):
            yield from self.exchange.options.steps(name, str(bucket), size, shapes)
            done.append((name, "update", str(bucket)))
            needs = summed if self.atomic else (summed[bucket],)
            yield Step(done[-1], None if clips else Work("update"), needs)
        yield from self.clipped(name, tuple(done))
        ends = self.known(name) if clips else ()
        yield Step((name, "end"), Work("update") if clips else None, (*done, *ends))

    def clipped(self, name: str, after: tuple[Key, ...]) -> Steps:
        """The steps between the last sum and the update, if the norm is shared."""
        return ()

    def known(self, name: str) -> tuple[Key, ...]:
        """The steps after which the norm is known, apart from the sums."""
        return ()

    def sums(self, shapes: Shapes, turn: Turn) -> list[int]:
        """The size of each sum that is made in this iteration, in numbers."""
        return self.summed(shapes)

    def holds(self, name: str, shapes: Shapes) -> Held:
        """The memory of a single worker, and the sums."""
        return super().holds(name, shapes) | self.exchanged(name, shapes)

    def kept_plain(self) -> str:
        """The recorded pass ends before the update."""
        return kept_plain(self.job)

    def exchanged(self, name: str, shapes: Shapes) -> Held:
        """Its gradients, and their sums. An update takes one bucket of sums to the device; clipping
        takes all."""
        buckets = [shapes.number * size for size in self.summed(shapes)]
        pieces = [sum(buckets)] if self.job.solver_spec.clips else buckets
        return leaving(self.job, pieces, self._read(name, shapes)) | self.received(name, shapes)

    def received(self, name: str, shapes: Shapes) -> Held:
        """The sums, which are made in host memory, or on a GPU if all gradients stay there: by each
        worker, or by an accumulator, whose sums it reads in place."""
        size = shapes.number * sum(self.summed(shapes))
        if self._read(name, shapes) is Read.HOST:
            return {f"sums{HOST}" if self.job.on_gpu else "sums": size}
        peers = map(shapes.options.get, self.exchanging(name, shapes))
        return {} if any(isinstance(peer, SummingOptions) for peer in peers) else {"sums": size}

    def _read(self, name: str, shapes: Shapes) -> Read:
        """Where its gradients are read."""
        return shapes.read([(name, peer) for peer in self.exchanging(name, shapes)])

    def exchanging(self, name: str, shapes: Shapes) -> tuple[str, ...]:
        """The actors that it exchanges gradients and sums with."""
        return shapes.peers(name)

    def loads(self, name: str, shapes: Shapes) -> Loads:
        """Forward and backward to the first bucket in one piece, then bucket by bucket, and its
        share of the sums."""
        net = shapes.net(self.job, "all")
        passes = self.job.passes
        layers = layers_in(net)
        rows = -(-shapes.rows(name) // passes)
        yield from first_passes("forward", rows, layers, passes)
        begins = Load("forward", rows, forward=layers if passes == 1 else ())
        yield from self._loads(net, begins, self._copied(name, shapes))
        for size in self.summed(shapes):
            yield from self.exchange.options.loads(name, size, shapes)

    def _copied(self, name: str, shapes: Shapes) -> int:
        """The bytes of each number that are copied between a GPU and host memory: 0 if they
        stay."""
        return shapes.number if self._read(name, shapes) is Read.HOST else 0

    def _loads(self, net: Net, begins: Load, number: int) -> Loads:
        """Backward and the updates. The piece `begins` includes the first bucket. A bucket's
        gradients are copied to host memory, and their sum to the device. `number`: bytes of a
        number that is copied (`_copied`)."""
        buckets = self.buckets(net)
        for bucket in buckets:
            first = begins if not bucket.number else Load("backward", begins.rows)
            copied = first.copied + number * bucket.size
            yield replace(first, backward=layers_in(bucket), copied=copied)
        if self.job.solver_spec.clips:
            copied = number * sum(bucket.size for bucket in buckets)
            yield Load("update", updated=tuple(net.params), copied=copied)
            return
        for bucket in buckets:
            yield Load("update", updated=tuple(bucket.params), copied=number * bucket.size)

    def summed(self, shapes: Shapes) -> list[int]:
        """The size of each bucket that it exchanges, in numbers."""
        return [bucket.size for bucket in self.buckets(shapes.net(self.job, "all"))]

    def buckets(self, net: WorkerNet) -> list[Bucket]:
        """The buckets of gradients that travel together."""
        return buckets_of(net, self.exchange.options.bucket_bytes)

"""The bytes of arrays that each link carries in one training iteration, exactly: the sum of the
sizes that the actors declare.

An iteration is one of the link's own group; groups cut batches into equal shares. The payload that
`metrics` counts (`convoy_payload_bytes_received_total`) is the same number of bytes, whatever the
transport. Tests, checkpoints and messages without arrays are not counted.
"""

from __future__ import annotations

from roles.base.role import Bytes, TrafficOptions
from roles.base.shapes import Shapes
from runtime.plan.topology import Topology

Traffic = dict[tuple[str, str], dict[str, Bytes]]


def traffic(topology: Topology, *, shared_memory: bool = True) -> Traffic:
    """(sender, receiver) -> kind of message -> bytes of arrays in one training iteration of their
    group.

    None where the bytes depend on the numbers. `shared_memory`: members of a collective share their
    memory.
    """
    return traffic_of(Shapes(topology, shared_memory))


def traffic_of(shapes: Shapes) -> Traffic:
    """The same for a topology whose shapes are known."""
    found = Traffic()
    for name, options in shapes.options.items():
        for receiver, message, size in (
            options.sends(name, shapes) if isinstance(options, TrafficOptions) else ()
        ):
            kinds = found.setdefault((name, receiver), {})
            before = kinds.get(message.__name__, 0)
            kinds[message.__name__] = None if size is None or before is None else before + size
    return found

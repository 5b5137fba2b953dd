"""The images that the data layers of a net name as their source."""

from __future__ import annotations

from pathlib import Path

from nets.data import Source, open_data
from nets.definition.spec import NetSpec
from nets.graph.inputs import data_layers


def data_of_net(net: NetSpec, base: Path) -> Source:
    """Open the data of a net's tests, as its data layers name them. Paths are relative to `base` or
    to the net's folder. Raises NetError with every mistake."""
    tested = net.for_phase("TEST")
    return open_data({"format": "net"}, base, data_layers(tested), net.path.parent)

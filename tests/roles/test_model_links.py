"""The distribution of layers over servers, compared with every possible distribution."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.workers.model_links import spread

# the number of parameters of each layer
NETS = {
    "lenet": [520, 25_050, 400_500, 5_010],
    "cifar10_full": [2_432, 25_632, 51_264, 10_250],
    "alexnet": [34_944, 307_456, 885_120, 663_936, 442_624, 37_752_832, 16_781_312, 4_097_000],
}


def fullest(sizes: list[int], servers: int) -> int:
    """The least load of the fullest server, over all distributions of the layers."""
    ways = itertools.product(range(servers), repeat=len(sizes))
    return min(
        max(sum(s for s, at in zip(sizes, way, strict=True) if at == n) for n in range(servers))
        for way in ways
    )


def spread_out(sizes: list[int], servers: int) -> tuple[list[list[str]], int]:
    named = {f"layer{number}": size for number, size in enumerate(sizes)}
    found = spread(named, servers)
    assert sorted(layer for layers in found for layer in layers) == sorted(named)
    # in net order
    assert all(layers == [layer for layer in named if layer in layers] for layers in found)
    return found, max(sum(named[layer] for layer in layers) for layers in found)


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", NETS)
def test_the_fullest_server_of_known_nets_holds_as_little_as_possible(
    name: str, servers: int
) -> None:
    found, most = spread_out(NETS[name], servers)
    assert most == fullest(NETS[name], servers)
    assert all(found)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=7), st.integers(1, 3))
def test_no_server_holds_more_than_four_thirds_of_the_best_maximum(
    sizes: list[int], servers: int
) -> None:
    found, most = spread_out(sizes, servers)
    assert 3 * most <= 4 * fullest(sizes, servers)
    assert sum(map(bool, found)) == min(servers, len(sizes))

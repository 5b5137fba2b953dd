"""The fastest times that an H100 allows, layer by layer: the page of the docs, and one layer
computed by hand."""

from __future__ import annotations

import pytest

from benchmarks.roofline import WORKLOADS, layers, of_net
from tests.helpers.support import ROOT


def test_the_page_of_the_docs_shows_the_results_of_the_benchmark() -> None:
    page = (ROOT / "docs" / "roofline.md").read_text("utf-8")
    assert page == layers(), (
        "write the page again: python -m benchmarks.roofline layers > docs/roofline.md"
    )


@pytest.mark.parametrize(
    ("layer", "flops"),
    [
        # forward pass and weight gradients; images need no gradient
        ("conv1", 2 * 2 * 256 * 96 * 55 * 55 * 3 * 11 * 11),
        # forward pass, weight gradients, data gradients; two groups
        ("conv2", 3 * 2 * 256 * 256 * 27 * 27 * 48 * 5 * 5),
        ("fc6", 3 * 2 * 256 * 9216 * 4096),
    ],
)
def test_the_flops_of_caffenets_layers_follow_from_krizhevskys_shapes(
    layer: str, flops: int
) -> None:
    (work,) = (work for work in WORKLOADS if work.net == "caffenet")
    (found,) = (one for one in of_net(work)[1] if one.name == layer)
    assert (work.batch, found.flops) == (256, flops)

"""Replicas in processes without shared memory compute the same bits as replicas with shared
memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import roles
import runtime
from nets.files import checkpoint
from ops import Array


def trained(directory: Path, *, shared_memory: bool) -> dict[str, Array]:
    """The parameters after three iterations. With five replicas, LeNet's gradients are too large
    for each to add up all of them."""
    options = {
        "max_iter": 3,
        "kernels": "numpy",
        "data": {"train": {"format": "digits", "split": "train"}},
    }
    topology = roles.training({**options, "strategy": {"preset": "replicas", "workers": 5}})
    settings = {"machine": [{"threads": 1}], "links": {"shared_memory": shared_memory}}
    run = runtime.launch(topology, directory=directory, **settings)

    async def main() -> Path:
        async with run:
            result = await run.result()
        return run.directory / result["checkpoint"]

    return checkpoint.load(asyncio.run(main()))[0]


@pytest.mark.slow
def test_a_divided_sum_is_the_same_if_its_shares_must_travel(tmp_path: Path) -> None:
    in_place, sent = (trained(tmp_path, shared_memory=shared) for shared in (True, False))
    assert in_place.keys() == sent.keys()
    assert all(np.array_equal(in_place[name], sent[name]) for name in in_place)

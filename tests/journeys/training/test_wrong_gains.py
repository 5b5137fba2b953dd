"""Gains that do not fit the outer model: the outer server refuses each by itself and names the
fault, and the run learns as if they had not come."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles.islands.island_messages import Gain
from runtime import Message
from runtime.actors.router import Router
from runtime.errors import MessageError
from tests.helpers.support import Simulated, train
from tests.journeys.training.test_islands import ALL, islands, same_bits

Wrong = Callable[[Gain], Gain]
# what is wrong, a wrong gain made from a right one, and words of the refusal
CASES: list[tuple[str, Wrong, str]] = [
    (
        "a layer that does not exist",
        lambda gain: replace(gain, layers=(*gain.layers[:-1], "fc9")),
        r"layers conv1, conv2, ip1, fc9, expected conv1, conv2, ip1, ip2",
    ),
    (
        "one array too few",
        lambda gain: replace(gain, blobs=gain.blobs[:-1]),
        r"8 formats and 7 arrays, expected 8 formats and 8 arrays",
    ),
    (
        "a negative number of arrays",
        lambda gain: replace(gain, arrays=(9, -5, *gain.arrays[2:])),
        r"layer 'conv1': 8 arrays for 2 blobs in the formats float32, float32",
    ),
    (
        "an array of another length",
        lambda gain: replace(gain, blobs=(gain.blobs[0][:1], *gain.blobs[1:])),
        r"layer 'conv1' in format float32: found float32 of shape \(1, 1, 5, 5\)",
    ),
    (
        "a format that does not exist",
        lambda gain: replace(gain, formats=("int3", *gain.formats[1:])),
        r"2 arrays for 2 blobs in the formats int3, float32",
    ),
    (
        "another type of numbers",
        lambda gain: replace(gain, blobs=(*gain.blobs[:-1], gain.blobs[-1].astype(np.int32))),
        r"layer 'ip2' in format float32: found int32",
    ),
    (
        "fewer than no samples",
        lambda gain: replace(gain, rows=-16),
        r"found \d iterations with -16 samples, expected 0 or more",
    ),
    (
        "fewer than no iterations",
        lambda gain: replace(gain, count=-1),
        r"found -1 iterations with \d+ samples, expected 0 or more",
    ),
    (
        "a sequence of the past",
        lambda gain: replace(gain, sequence=0),
        r"found sequence 0, expected more than \d+, which the outer model has already",
    ),
]


def run(directory: Path) -> Simulated:
    return train(islands(directory, workers=3, iterations=8, keys=ALL))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A run without wrong gains."""
    return run(tmp_path_factory.mktemp("clean"))


@pytest.mark.parametrize(("wrong", "said"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_gain_that_does_not_fit_is_refused_and_harms_no_other_island(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Simulated, wrong: Wrong, said: str
) -> None:
    ask = Router.ask
    reject = Router.reject
    refused: list[tuple[str, MessageError]] = []
    told = 0

    async def asked(
        router: Router, sender: str, to: str, message: Message, *rest: Any, **about: Any
    ) -> Any:
        nonlocal told
        if isinstance(message, Gain) and sender == "island-1" and message.number:
            told += 1
            await router.send(sender, to, wrong(message))
        return await ask(router, sender, to, message, *rest, **about)

    def count(router: Router, peer: str, error: MessageError | None) -> None:
        refused.extend([] if error is None else [(peer, error)])
        reject(router, peer, error)

    monkeypatch.setattr(Router, "ask", asked)
    monkeypatch.setattr(Router, "reject", count)
    found = run(tmp_path)
    assert len(refused) == told > 0
    for peer, error in refused:
        assert peer == "island-1"
        assert re.search(said, str(error)), error
    assert same_bits(found.arrays, clean.arrays)

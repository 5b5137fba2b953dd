"""A message that comes twice, or that nobody awaits, is rejected and counted; the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import runtime.node
from roles.messages import LayerGradient, PassDone, Updated
from runtime.messages import Envelope, Message
from tests.support import configure, train


@pytest.mark.parametrize("kind", [LayerGradient, Updated, PassDone])
def test_a_run_with_every_message_of_a_kind_doubled_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Message]
) -> None:
    clean = train(configure(tmp_path / "clean", "sync", workers=2, iterations=3, test=True))
    rejected: list[str] = []
    deliver, reject = runtime.node.Node.deliver, runtime.node.Node.reject

    def twice(node: runtime.node.Node, envelope: Envelope, size: int, release: Callable[[], None]) -> None:
        deliver(node, envelope, size, release)
        if type(envelope.message) is kind:
            deliver(node, envelope, size, lambda: None)

    def count(node: runtime.node.Node, peer: str, error: runtime.node.MessageError | None) -> None:
        rejected.extend([] if error is None else [error.reason])
        reject(node, peer, error)

    monkeypatch.setattr(runtime.node.Node, "deliver", twice)
    monkeypatch.setattr(runtime.node.Node, "reject", count)
    doubled = train(configure(tmp_path / "doubled", "sync", workers=2, iterations=3, test=True))
    assert set(rejected) == {"unexpected"}
    for name, expected in clean.arrays.items():
        assert doubled.arrays[name].tobytes() == expected.tobytes(), name

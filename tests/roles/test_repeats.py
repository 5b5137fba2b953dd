"""Messages that are sent twice, arrive twice, or are not awaited: they are rejected and counted,
and the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roles.messages import LayerGradient, PassDone, Updated
from runtime.actors.router import Router
from runtime.errors import MessageError
from runtime.messages.message import Envelope, Message
from tests.helpers.support import Simulated, configure, train


@pytest.fixture
def clean(tmp_path: Path) -> Simulated:
    """A run without faults."""
    return train(configure(tmp_path / "clean", "sync", workers=2, iterations=3, test=True))


@pytest.fixture
def rejected(clean: Simulated, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reasons of the rejections from now on."""
    reasons: list[str] = []
    reject = Router.reject

    def count(router: Router, peer: str, error: MessageError | None) -> None:
        reasons.extend([] if error is None else [error.reason])
        reject(router, peer, error)

    monkeypatch.setattr(Router, "reject", count)
    return reasons


def same_numbers(tmp_path: Path, clean: Simulated) -> None:
    doubled = train(configure(tmp_path / "doubled", "sync", workers=2, iterations=3, test=True))
    for name, expected in clean.arrays.items():
        assert doubled.arrays[name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("kind", [LayerGradient, Updated, PassDone])
def test_a_run_in_which_every_message_of_a_kind_is_sent_twice_gives_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clean: Simulated,
    rejected: list[str],
    kind: type[Message],
) -> None:
    send = Router.send

    async def twice(router: Router, sender: str, to: str, message: Message, **about: Any) -> None:
        await send(router, sender, to, message, **about)
        if type(message) is kind:
            await send(router, sender, to, message, **about)

    monkeypatch.setattr(Router, "send", twice)
    same_numbers(tmp_path, clean)
    assert set(rejected) == {"illegal"}


def test_a_run_in_which_every_message_arrives_twice_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Simulated, rejected: list[str]
) -> None:
    deliver = Router.deliver

    def twice(router: Router, envelope: Envelope, size: int, release: Callable[[], None]) -> None:
        deliver(router, envelope, size, release)
        deliver(router, envelope, size, lambda: None)

    monkeypatch.setattr(Router, "deliver", twice)
    same_numbers(tmp_path, clean)
    assert set(rejected) == {"late", "unasked"}

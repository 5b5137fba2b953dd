"""A message that is illegal in its receiver's state: the receiver's table refuses it, it is
counted, and the run goes on.

In each run, every message of one kind is followed by a wrong one. Its number, the things that it
names or its sender are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roles.fc.swap import Columns, FcTurn
from roles.messages import (
    Activations,
    ActivationSlice,
    Contribution,
    LayerGradient,
    NextTicket,
    PassDone,
    PullLayer,
    SharedSum,
    Updated,
)
from runtime import Message
from runtime.actors.router import Router
from runtime.errors import MessageError
from tests.helpers.support import Simulated, configure, train

SHARDS = 'servers = 2\nscheme = "b"\n'
# makes a wrong message from a right one, or returns None to leave this message alone
Wrong = Callable[[Any], Message | None]
CASES: list[tuple[str, type[Message], Wrong, str, str]] = [
    ("sync", Updated, lambda said: NextTicket(), "coordinator", "is 'not of this run'"),
    (
        "sync",
        PassDone,
        lambda said: replace(said, number=said.number + 9),
        "coordinator",
        "is 'not under way'",
    ),
    (
        "sync",
        Updated,
        lambda said: replace(said, number=said.number - 1),
        "coordinator",
        "is 'not under way'",
    ),
    (
        "sync",
        PullLayer,
        lambda said: replace(said, layer="ip1"),
        "conv_model",
        "is 'on another server'",
    ),
    (
        "sync",
        LayerGradient,
        lambda said: replace(said, number=said.number + 9),
        "conv_model",
        "is 'unread'",
    ),
    (
        "sync",
        LayerGradient,
        lambda said: replace(said, part=9),
        "reducer-0",
        "is 'none of its parts'",
    ),
    (
        "sync",
        Activations,
        lambda said: replace(said, rank=9),
        "fc_server",
        "is 'none of its parts'",
    ),
    (
        "local-fc-shards",
        FcTurn,
        lambda said: replace(said, number=said.number - 1) if said.number else None,
        "fc-1",
        "is 'had its turn'",
    ),
    (
        "local-fc-shards",
        ActivationSlice,
        lambda said: Columns(
            phase="TRAIN", number=said.number, part=0, link=0, backward=False, values=()
        ),
        "fc-0",
        "is 'not another shard's'",
    ),
    (
        "local-fc-shards",
        ActivationSlice,
        lambda said: replace(said, number=said.number - 1) if said.number else None,
        "fc-0",
        "is 'answered'",
    ),
    (
        "replicas",
        Contribution,
        lambda said: replace(said, bucket=99),
        "replica-0",
        "is 'no such bucket'",
    ),
    (
        "replicas",
        Contribution,
        lambda said: replace(said, number=-1),
        "replica-1",
        "is 'summed before'",
    ),
    (
        "firecaffe",
        SharedSum,
        lambda said: replace(said, number=-1),
        "replica-1",
        "is 'summed before'",
    ),
    (
        "host-accumulate",
        SharedSum,
        lambda said: Contribution(
            number=said.number, bucket=said.bucket, values=said.values[0], into=()
        ),
        "replica-0",
        "in no state at all",
    ),
    (
        "host-accumulate",
        Contribution,
        lambda said: replace(said, number=-1),
        "accumulator",
        "is 'complete before'",
    ),
]


def run(directory: Path, preset: str) -> Simulated:
    workers = 3 if preset == "sync" else 2  # the smallest number with a reducer
    cluster = configure(directory, preset, workers=workers, iterations=3, test=preset == "sync")
    cluster.write_text(cluster.read_text() + (SHARDS if preset == "local-fc-shards" else ""))
    return train(cluster)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Simulated]:
    """A run of the preset without wrong messages."""
    found: dict[str, Simulated] = {}

    def made(preset: str) -> Simulated:
        if preset not in found:
            found[preset] = run(tmp_path_factory.mktemp(preset), preset)
        return found[preset]

    return made


@pytest.mark.parametrize(
    ("preset", "kind", "wrong", "receiver", "why"),
    CASES,
    ids=[f"{kind.__name__} {why}" for _, kind, _, _, why in CASES],
)
def test_an_illegal_message_is_refused_by_the_table_and_counted_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: Callable[[str], Simulated],
    preset: str, kind: type[Message], wrong: Wrong, receiver: str, why: str,
) -> None:  # fmt: skip
    expected = clean(preset)
    send = Router.send
    ask = Router.ask
    reject = Router.reject
    refused: list[MessageError] = []
    told = 0

    async def meddle(router: Router, sender: str, to: str, message: Message) -> None:
        nonlocal told
        if type(message) is kind and to == receiver and (bad := wrong(message)) is not None:
            told += 1
            await send(router, sender, to, bad)

    async def sent(router: Router, sender: str, to: str, message: Message, **about: Any) -> None:
        await meddle(router, sender, to, message)
        await send(router, sender, to, message, **about)

    async def asked(
        router: Router, sender: str, to: str, message: Message, *rest: Any, **about: Any
    ) -> Any:
        await meddle(router, sender, to, message)
        return await ask(router, sender, to, message, *rest, **about)

    def count(router: Router, peer: str, error: MessageError | None) -> None:
        refused.extend([] if error is None else [error])
        reject(router, peer, error)

    monkeypatch.setattr(Router, "send", sent)
    monkeypatch.setattr(Router, "ask", asked)
    monkeypatch.setattr(Router, "reject", count)
    found = run(tmp_path, preset)
    assert len(refused) == told > 0
    assert all(error.reason == "illegal" and why in str(error) for error in refused)
    assert found.arrays.keys() == expected.arrays.keys()
    assert all(
        found.arrays[name].tobytes() == array.tobytes() for name, array in expected.arrays.items()
    )

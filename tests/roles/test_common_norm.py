"""The norm that several holders of parameters share: who tells whom, when it is known, and that the
order does not change a bit of the factor."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from nets import load_solver
from roles.learning.common_norm import CommonNorm, NormShare, NormShares
from runtime import MessageError

HOLDERS = ("conv_model", "fc_server", "model-2")
SQUARES = {"conv_model": (1e-9, 3.0), "fc_server": (1e9,), "model-2": (7e-5, 1.0, 2.0)}


class Told:
    """An actor that keeps the messages that it sends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: list[tuple[str, NormShare]] = []

    async def tell(self, to: str, message: NormShare, *, step: int = -1) -> None:
        self.said.append((to, message))


def norm_of(name: str) -> tuple[Told, CommonNorm]:
    actor = Told(name)
    told = tuple(other for other in HOLDERS if other != name)
    shares = NormShares(len(HOLDERS), HOLDERS.index(name), told)
    return actor, CommonNorm(actor, shares)  # type: ignore[arg-type]


async def shares() -> dict[str, NormShare]:
    found = {}
    for name in HOLDERS:
        actor, norm = norm_of(name)
        assert await norm.share(0, 5, SQUARES[name]) is None
        assert {to for to, _ in actor.said} == {*HOLDERS} - {name}
        found[name] = actor.said[0][1]
    return found


@pytest.mark.asyncio
async def test_the_norm_is_known_with_the_last_share_in_whatever_order_they_come(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.prototxt"
    file.write_text('base_lr: 1 lr_policy: "fixed" max_iter: 1 clip_gradients: 0.1')
    solver = load_solver(file)
    told = await shares()
    factors = set()
    for order in itertools.permutations(HOLDERS):
        _, norm = norm_of("conv_model")
        *early, known = [norm.came(told[name], name) for name in order]
        assert early == [None, None]
        assert known is not None
        factors.add(solver.clip_factor_of(known))
    assert len(factors) == 1


@pytest.mark.asyncio
async def test_a_share_that_comes_twice_is_refused_and_changes_nothing() -> None:
    told = await shares()
    _, norm = norm_of("conv_model")
    norm.came(told["fc_server"], "fc_server")
    with pytest.raises(MessageError):
        norm.came(told["fc_server"], "fc_server")
    norm.came(told["model-2"], "model-2")
    known = norm.came(told["conv_model"], "conv_model")
    assert known is not None
    assert sorted(known) == sorted(itertools.chain.from_iterable(SQUARES.values()))
    with pytest.raises(MessageError):
        norm.came(told["model-2"], "model-2")

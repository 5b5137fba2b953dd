"""FC shards whose messages are late, repeated or competing, and groups that change: no actor waits
for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles.fc.swap import Columns, FcTurn
from roles.learning.parameter_store import ParameterStore
from roles.messages import ActivationSlice
from roles.tuning.momentum import compensated
from runtime.actors.router import Router
from runtime.messages.message import Message
from runtime.transport.inproc import InprocNetwork
from tests.helpers.fc_shards import configured, difference, run
from tests.helpers.support import train
from tests.journeys.tuning.test_regroup import meddled

pytestmark = pytest.mark.usefixtures("one_thread")

CONV = {"forward": 0.005, "backward": 0.010}  # seconds
FC = 0.0001  # of each piece of an FC batch
PIECES = 5  # of an FC batch of LeNet: three forward, one backward, the answers


def times(actor: str, label: str) -> float:
    """The seconds of a piece of work. All other work takes none."""
    return FC if label.startswith("fc ") else CONV.get(label, 0.0)


@pytest.mark.few("[b]")
@pytest.mark.parametrize("scheme", ["a", "b", "c", "c2"])
def test_whichever_actor_is_late_the_numbers_are_the_same_to_the_last_bit(
    tmp_path: Path, scheme: str
) -> None:
    delays = np.random.default_rng(0)
    strategy = f'scheme = "{scheme}"\n'
    at_once = run(tmp_path / "a", "one-weird-trick", workers=3, iterations=4, strategy=strategy)
    late = train(
        configured(tmp_path / "b", "one-weird-trick", workers=3, iterations=4, strategy=strategy),
        service_time=lambda actor, label: float(delays.exponential(0.01)),
        network=InprocNetwork(latency=0.001, bytes_per_second=1e8),
    )
    assert difference(late, at_once) == 0.0


@pytest.mark.few("[b]")
@pytest.mark.parametrize("scheme", ["a", "b", "c", "c2"])
def test_groups_that_compete_for_the_shards_are_served_in_one_order_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """If shards served the batches of two groups in different orders, they would wait for one
    another for ever (Deadlock)."""
    delays = np.random.default_rng(1)
    ask = Router.ask

    async def late(
        router: Router, sender: str, to: str, message: Message, answer: type[Any], **about: Any
    ) -> Any:
        # the first message to one shard is the last to another
        if isinstance(message, ActivationSlice):
            await asyncio.sleep(float(delays.exponential(0.05)))
        return await ask(router, sender, to, message, answer, **about)

    monkeypatch.setattr(Router, "ask", late)
    strategy = f'servers = 3\nscheme = "{scheme}"\n'
    found = train(
        configured(
            tmp_path, "local-fc-shards", workers=5, groups=3, iterations=40, strategy=strategy
        ),
        service_time=lambda actor, label: 0.01,
    )
    assert len(found.losses()) == 40
    assert np.mean(found.losses()[-5:]) < np.mean(found.losses()[:5])


def test_a_group_that_gets_a_test_batch_twice_with_no_iteration_between_is_served_twice(
    tmp_path: Path,
) -> None:
    """The numbers of test batches restart with every test, so a worker's next pass may have the
    same number."""
    cluster = configured(tmp_path, "local-fc-shards", workers=2, groups=2, iterations=4, test=True)
    solver = cluster.with_name("solver.prototxt")
    solver.write_text(solver.read_text() + "test_interval: 1\ntest_iter: 1\n")
    assert len(train(cluster).journal.of("test")) == 1 + 4


@pytest.mark.slow
def test_groups_and_rates_change_while_the_shards_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, float]] = []
    monkeypatch.setattr(ParameterStore, "set_rates", lambda store, *rates: told.append(rates))
    strategy = 'servers = 3\nscheme = "c"\nlive = true\n'
    cluster = configured(
        tmp_path, "local-fc-shards", workers=4, groups=2, iterations=40, strategy=strategy
    )
    changes = [
        {"workers": 3, "groups": 3},
        {"workers": 4, "groups": 1, "base_lr": 0.005, "momentum": 0.5},
    ]
    journal = meddled(cluster, changes, [])
    assert [fields["groups"] for fields in journal.of("regrouped")] == [3, 1]
    # the conv model and every shard: momentum follows the groups until a request names one
    followed = pytest.approx((0.01, compensated(0.9, 2)), abs=1e-5)
    assert told == [followed] * 4 + [pytest.approx((0.005, 0.5))] * 4
    assert len(journal.of("progress")) == 40


def test_with_scheme_b_a_worker_is_answered_while_the_rows_of_the_next_are_computed(
    tmp_path: Path,
) -> None:
    """Shards with devices of their own: a worker's FC batch is done, and its conv phase goes
    backward, before the last FC batch begins."""
    log: list[tuple[str, str]] = []

    def noted(actor: str, label: str) -> float:
        log.append((actor, label))
        return 0.1 if label.startswith("fc") else 0.01

    strategy = 'servers = 2\nscheme = "b"\n'
    train(
        configured(tmp_path, "local-fc-shards", workers=3, iterations=1, strategy=strategy),
        service_time=noted,
    )
    begun = [at for at, (actor, label) in enumerate(log) if actor == "fc-0" and label == "fc TRAIN"]
    conv = next(
        at
        for at, (actor, label) in enumerate(log)
        if actor == "conv-0-0" and label == "backward conv2"
    )
    assert conv < begun[-1]


@pytest.mark.parametrize("scheme", ["a", "b", "c", "c2"])
def test_no_worker_goes_backward_before_the_last_fc_batch_of_shards_on_the_same_devices(
    tmp_path: Path, scheme: str
) -> None:
    log: list[str] = []

    def noted(actor: str, label: str) -> float:
        log.append(label)
        return times(actor, label)

    strategy = f'scheme = "{scheme}"\n'
    train(
        configured(tmp_path, "one-weird-trick", workers=4, iterations=1, strategy=strategy),
        service_time=noted,
    )
    last = max(at for at, label in enumerate(log) if label.startswith("fc "))
    assert last < log.index("backward")
    assert log.count("backward") == 4


@pytest.mark.few("[c-4]", "[b-4]")
@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("scheme", ["b", "c", "c2"])
def test_more_fc_batches_take_only_the_time_of_their_own_pieces(
    tmp_path: Path, workers: int, scheme: str
) -> None:
    """Before, each FC batch of scheme b waited until the worker of the batch before it had gone
    backward on its shard's device: 4 workers took 0.470 s, and 0.155 s with scheme a."""
    iterations = 10
    seconds = {name: _seconds(tmp_path / name, name, workers, iterations) for name in ("a", scheme)}
    more = iterations * (workers - 1) * PIECES * FC
    assert seconds[scheme] == pytest.approx(seconds["a"] + more, rel=0.01)


def _seconds(directory: Path, scheme: str, workers: int, iterations: int) -> float:
    """The seconds of so many iterations on the virtual clock, over links of 6 GB/s."""
    cluster = configured(
        directory,
        "one-weird-trick",
        workers=workers,
        batch=64,  # with scheme c, 8 batches of 8 rows
        iterations=iterations,
        strategy=f'scheme = "{scheme}"\n',
    )
    found = train(
        cluster,
        service_time=times,
        network=InprocNetwork(bytes_per_second=6e9),
        checkpoint=False,
    )
    (finished,) = found.journal.of("finished")
    return float(finished["seconds"])


@pytest.mark.parametrize("kind", [FcTurn, Columns])
def test_a_run_in_which_shards_send_everything_twice_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Message]
) -> None:
    options: dict[str, Any] = {
        "workers": 3,
        "groups": 2,
        "iterations": 4,
        "strategy": 'servers = 3\nscheme = "b"\n',
    }
    clean = run(tmp_path / "clean", "local-fc-shards", **options)
    send = Router.send
    repeated = []

    async def twice(router: Router, sender: str, to: str, message: Message, **about: Any) -> None:
        await send(router, sender, to, message, **about)
        if type(message) is kind:
            repeated.append(message)
            await send(router, sender, to, message, **about)

    monkeypatch.setattr(Router, "send", twice)
    assert difference(run(tmp_path / "doubled", "local-fc-shards", **options), clean) == 0.0
    assert repeated

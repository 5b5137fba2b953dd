"""Iterations that are handed out at once: as many as pass in a moment, without any effect on
learning."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nets.data import Prefetcher
from roles.coordination.ticket_batching import MOST, SECONDS, Pace
from roles.messages import TRAIN, PassDone, Ticket
from runtime.actors.router import Router
from runtime.messages.message import Message
from tests.helpers.support import Simulated, configure, train


def paced(seconds: float, times: int) -> list[int]:
    """The numbers of iterations given to a group whose iterations take `seconds`. The group asks
    again when the last iteration of the previous ticket begins."""
    pace = Pace()
    now = 100.0
    given: list[int] = []
    for time in range(times):
        # at the second request, the first iteration has only begun
        now += given[-1] * seconds if time > 1 else 0.0
        given.append(pace.next(now))
        pace.given(given[-1], now)
    return given


@pytest.mark.parametrize(
    ("seconds", "expected"), [(10.0, 1), (0.06, 1), (0.0249, 4), (0.0099, 10), (1e-6, MOST)]
)
def test_a_group_gets_as_many_iterations_as_pass_in_a_moment(seconds: float, expected: int) -> None:
    given = paced(seconds, 12)
    assert given[-1] == expected
    assert given[:2] == [1, 1], "the pace is unknown before an iteration has passed"
    assert all(later <= 2 * former for former, later in itertools.pairwise(given))


def test_a_group_that_becomes_slow_gets_fewer() -> None:
    pace = Pace()
    for now in (0.0, 0.0, 0.01, 0.03, 0.07):
        pace.given(pace.next(now), now)
    assert pace.next(0.07 + 8 * 0.01) > 1
    assert pace.next(0.07 + 8 * SECONDS) == 1


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_at_least_one_iteration_and_at_most_a_limit_is_given_whatever_the_clock(
    times: list[float],
) -> None:
    pace = Pace()
    for now in times:
        count = pace.next(now)
        assert 1 <= count <= MOST
        pace.given(count, now)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[type[Message], str]]:
    """Count the messages about passes of each phase that actors send from now on."""
    kinds: Counter[tuple[type[Message], str]] = Counter()
    send = Router.send

    async def counting(
        router: Router, sender: str, to: str, message: Message, **about: Any
    ) -> None:
        kinds[type(message), getattr(message, "phase", "")] += 1
        await send(router, sender, to, message, **about)

    monkeypatch.setattr(Router, "send", counting)
    return kinds


def trained(folder: Path, preset: str, display: int, **options: Any) -> Simulated:
    """Train for 24 iterations on virtual time. A progress report ends each series of iterations."""
    cluster = configure(folder, preset, iterations=24, test=True, **options)
    solver = folder / "solver.prototxt"
    solver.write_text(
        solver.read_text().replace("display: 1", f"display: {display} test_interval: 16")
    )
    return train(cluster)


@pytest.mark.few("[replicas]")
@pytest.mark.parametrize("preset", ["single", "replicas", "sync", "dl4j", "one-weird-trick"])
def test_how_many_iterations_are_handed_out_at_once_changes_no_bit(
    tmp_path: Path, preset: str
) -> None:
    workers = 1 if preset == "single" else 2
    one_by_one, many = (trained(tmp_path / str(n), preset, n, workers=workers) for n in (1, 20))
    for name, expected in one_by_one.arrays.items():
        assert many.arrays[name].tobytes() == expected.tobytes(), name
    assert many.journal.of("test") == one_by_one.journal.of("test")


def test_a_lone_group_gets_few_messages_and_reports_every_iteration(
    tmp_path: Path, sent: Counter[tuple[type[Message], str]]
) -> None:
    run = trained(tmp_path, "replicas", 20, workers=2)
    assert [fields["iteration"] for fields in run.journal.of("progress")] == [1, 20]
    assert sent[PassDone, TRAIN] == 2 * 24
    # 1, 1, 2, 4, 8 up to the test after 16; then 1, 1, 2 up to the report after 20, and 4
    assert sent[Ticket, TRAIN] == 2 * (5 + 4)


def test_rows_are_asked_for_ahead_in_a_run_of_iterations_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead: set[tuple[int, ...]] = set()
    request = Prefetcher.request
    get = Prefetcher.get

    def requesting(reader: Prefetcher, *share: int) -> bool:
        accepted = request(reader, *share)
        if accepted:
            ahead.add((id(reader), *share))
        return accepted

    def getting(reader: Prefetcher, *share: int) -> Any:
        assert (id(reader), *share) in ahead
        return get(reader, *share)

    monkeypatch.setattr(Prefetcher, "request", requesting)
    monkeypatch.setattr(Prefetcher, "get", getting)
    trained(tmp_path, "replicas", 20, workers=2)
    assert len(ahead) > 2 * 24


def test_several_groups_take_turns_iteration_by_iteration(
    tmp_path: Path, sent: Counter[tuple[type[Message], str]]
) -> None:
    trained(tmp_path, "async", 20, workers=2, groups=2)
    assert sent[Ticket, TRAIN] == sent[PassDone, TRAIN] == 24

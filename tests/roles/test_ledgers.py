"""The ledgers of the model server and the coordinator compared with simple models of them, for any
possible order of messages.

The next message is drawn at random. Now and then an earlier message is repeated. The ledger must
refuse it and stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roles.coordination.pass_ledger import PassLedger
from roles.messages import (
    TEST,
    TRAIN,
    LayerGradient,
    LayerModel,
    NextTicket,
    PassDone,
    PullLayer,
    Updated,
)
from roles.servers.model_ledger import ModelLedger
from runtime import Envelope, MessageError

LAYERS = ("conv1", "conv2")


def shown(ledger: object) -> str:
    """The whole state of a ledger, including its standings."""
    return str(
        {
            name: vars(value) if hasattr(value, "__dict__") else value
            for name, value in vars(ledger).items()
        }
    )


@dataclass
class Worker:
    """A worker that runs its group's iterations: it pulls every layer, then sends its part of every
    layer's gradient."""

    group: int
    rank: int
    members: int
    done: int = 0  # iterations of its group that it has begun
    # the remaining steps of this iteration
    steps: list[tuple[str, str]] = field(default_factory=list)
    number: int = -1
    after: int = -1
    waits: bool = False


@dataclass
class Run:
    """Groups of workers around one model server. `numbers` of a group lists its iterations so
    far."""

    sizes: list[int]
    last: int
    ledger: ModelLedger = field(default_factory=lambda: ModelLedger(LAYERS))
    issued: int = 0
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAYERS, 0))
    read: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    updates: list[Updated] = field(default_factory=list)
    gradients: list[LayerGradient] = field(default_factory=list)
    began: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers: list[list[int]] = [[] for _ in self.sizes]
        self.workers = [
            Worker(g, rank, size) for g, size in enumerate(self.sizes) for rank in range(size)
        ]

    def able(self) -> list[Worker]:
        return [one for one in self.workers if not one.waits and (one.steps or self._more(one))]

    def step(self, worker: Worker) -> None:
        """Take the worker's next step."""
        if not worker.steps:
            self._begin(worker)
        what, layer = worker.steps.pop(0)
        if what == "pull":
            self._pull(worker, layer)
        else:
            self._give(worker, layer)

    def _more(self, worker: Worker) -> bool:
        return worker.done < len(self.numbers[worker.group]) or self.issued < self.last

    def _begin(self, worker: Worker) -> None:
        numbers = self.numbers[worker.group]
        if worker.done == len(numbers):
            numbers.append(self.issued)
            self.issued += 1
        worker.number = numbers[worker.done]
        worker.after = numbers[worker.done - 1] if worker.done else -1
        worker.done += 1
        worker.steps = [("pull", layer) for layer in LAYERS] + [
            ("give", layer) for layer in reversed(LAYERS)
        ]

    def _pull(self, worker: Worker, layer: str) -> None:
        pull = PullLayer(
            group=worker.group,
            members=worker.members,
            phase=TRAIN,
            number=worker.number,
            layer=layer,
            after=worker.after,
        )
        if self.ledger.pull(pull, asked(pull, worker)):
            self._publish(pull, worker)
        else:
            worker.waits = True

    def _publish(self, pull: PullLayer, worker: Worker) -> None:
        self.began.setdefault(pull.number, self.ledger.version)
        fresh = LayerModel(layer=pull.layer, version=self.versions[pull.layer], blobs=())
        self.read.setdefault((pull.number, pull.layer), set()).add(
            self.ledger.publish(pull, fresh).version
        )
        worker.waits = False

    def _give(self, worker: Worker, layer: str) -> None:
        gradient = LayerGradient(
            group=worker.group,
            number=worker.number,
            layer=layer,
            part=worker.rank,
            parts=worker.members,
            formats=(),
            blobs=(),
        )
        self.ledger.check(gradient, "somebody")
        self.gradients.append(gradient)
        if not self.ledger.came(gradient, "somebody"):
            return
        self.versions[layer] += 1
        staleness, updated = self.ledger.applied(gradient, self.versions[layer])
        (read,) = self.read[worker.number, layer]  # all members read one version
        assert staleness == self.versions[layer] - 1 - read
        if updated is not None:
            self.updates.append(updated)
            assert updated.version == len(self.updates)
            assert updated.staleness == len(self.updates) - 1 - self.began[worker.number]
        for pull, envelope in self.ledger.ready():
            self._publish(
                pull, next(one for one in self.workers if name_of(one) == envelope.sender)
            )


def name_of(worker: Worker) -> str:
    return f"conv-{worker.group}-{worker.rank}"


def asked(pull: PullLayer, worker: Worker) -> Envelope:
    return Envelope(pull, 1, name_of(worker), 1, "conv_model", reply_to=name_of(worker))


@given(st.data(), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_every_iteration_gets_into_the_model_once_whatever_the_order(
    data: st.DataObject, sizes: list[int]
) -> None:
    run = Run(sizes, last=6)
    while able := run.able():
        run.step(data.draw(st.sampled_from(able)))
        # the entries of each group's last iteration and the next
        assert run.ledger.kept <= 2 * len(sizes) * len(LAYERS)
        if run.gradients and data.draw(st.integers(0, 4)) == 0:
            again = data.draw(st.sampled_from(run.gradients))
            before = shown(run.ledger)
            with pytest.raises(MessageError, match=r"illegal: .*LayerGradient"):
                run.ledger.check(again, "somebody")
            assert shown(run.ledger) == before
    assert not any(worker.waits for worker in run.workers)
    assert (
        sorted(update.number for update in run.updates) == list(range(run.issued)) == list(range(6))
    )
    ledger = run.ledger
    assert (ledger.version, ledger.kept, run.versions) == (6, 0, dict.fromkeys(LAYERS, 6))
    assert not (
        ledger._waiting or ledger._reading or ledger._read or ledger._began or ledger._layers_in
    )
    assert len(ledger._applied) <= len(sizes) * len(LAYERS)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_a_test_batch_is_read_in_one_version_by_all_members_and_forgotten(
    members: list[int],
) -> None:
    ledger = ModelLedger(LAYERS)
    # the batches of one test after the other have the same number
    for version, count in enumerate(members):
        for _ in range(count):
            pull = PullLayer(group=0, members=count, phase=TEST, number=0, layer="conv1", after=-1)
            fresh = LayerModel(layer="conv1", version=version + 10 * ledger.kept, blobs=())
            assert ledger.pull(pull, Envelope(pull, 1, "conv-0-0", 1, "conv_model"))
            assert ledger.publish(pull, fresh).version == version
        assert (ledger.kept, ledger._reading) == (0, {})


def test_batches_of_one_number_of_two_test_nets_are_under_way_together() -> None:
    ledger = ModelLedger(LAYERS)
    pulls = [
        PullLayer(group=0, members=2, phase=f"TEST{n}", number=0, layer="conv1", after=-1)
        for n in ("", " 1")
    ]
    for version, pull in enumerate([*pulls, *pulls]):
        assert ledger.pull(pull, Envelope(pull, 1, "conv-0-0", 1, "conv_model"))
        fresh = LayerModel(layer="conv1", version=version, blobs=())
        # the version that the first member of its group got
        assert ledger.publish(pull, fresh).version == version % 2
        assert ledger.kept == (1, 2, 1, 0)[version]


# -- the coordinator's ledger


@given(st.data(), st.integers(1, 3), st.integers(0, 2))
def test_every_report_of_an_iteration_counts_once_and_its_staleness_is_the_largest(
    data: st.DataObject, workers: int, servers: int
) -> None:
    owed: dict[int, int] = {}
    ledger = PassLedger([f"w{n}" for n in range(workers)], lambda phase, number: number in owed)
    reports: list[tuple[int, str]] = []
    losses: dict[int, float] = {}
    staleness: dict[int, list[int]] = {}
    heard: list[Callable[[], object]] = []
    for number in range(4):
        owed[number] = workers + servers
        reports += [(number, f"w{n}") for n in range(workers)] + [
            (number, f"s{n}") for n in range(servers)
        ]
    for number, who in data.draw(st.permutations(reports)):
        if who.startswith("w"):
            worker = int(who[1:])
            said = PassDone(
                members=workers,
                phase=TRAIN,
                number=number,
                rows=2,
                scores={"loss": float(worker + number)},
                exposed=number + worker / 10,
            )

            def tell(said: PassDone = said, who: str = who) -> object:
                return ledger.done(said, who)
        else:
            stale = Updated(number=number, version=1, staleness=data.draw(st.integers(0, 9)))
            staleness.setdefault(number, []).append(stale.staleness)

            def tell(stale: Updated = stale, who: str = who) -> object:  # type: ignore[misc]
                return ledger.updated(stale, who)

        whole = tell()
        heard.append(tell)
        if isinstance(whole, tuple):
            rows, scores = whole
            assert rows == 2 * workers
            losses[number] = scores["loss"]
        owed[number] -= 1
        if not owed[number]:
            del owed[number]
            ended = ledger.end(number)
            assert ended.staleness == max(staleness.get(number, []), default=None)
            assert ended.loss == losses[number]
            assert sorted(ended.exposed) == [number + n / 10 for n in range(workers)]
        assert ledger.kept <= len(owed) * (workers + servers)
        before = shown(ledger)
        with pytest.raises(MessageError, match="illegal: "):
            data.draw(st.sampled_from(heard))()
        assert shown(ledger) == before
    assert losses == {number: pytest.approx(number + (workers - 1) / 2) for number in range(4)}
    assert (
        ledger.kept,
        ledger._parts,
        ledger._reporters,
        ledger._updaters,
        ledger._iterations,
    ) == (0, {}, {}, {}, {})


def test_a_report_about_a_test_batch_counts_once_per_test() -> None:
    testing = True
    ledger = PassLedger(["w0"], lambda phase, number: phase == TEST and testing)
    said = PassDone(members=1, phase=TEST, number=0, rows=5, scores={"loss": 1.0})
    for _ in range(2):
        testing = True
        assert ledger.done(said, "w0") == (5, {"loss": 1.0})
        with pytest.raises(MessageError, match=r"phase TEST, number 0, worker w0\) is 'heard'"):
            ledger.done(said, "w0")
        testing = False
        ledger.end_test()
        assert ledger.kept == 0
        with pytest.raises(MessageError, match="is 'not under way'"):
            ledger.done(said, "w0")
    with pytest.raises(MessageError, match=r"illegal: .* is 'not of this run'"):
        ledger.asks(NextTicket(), "s0")
    ledger.asks(NextTicket(), "w0")


def test_a_worker_may_do_an_iteration_again_that_was_taken_from_it() -> None:
    ledger = PassLedger(["w0"], lambda phase, number: True)
    done = PassDone(members=1, phase=TRAIN, number=3, rows=16, scores={"loss": 1.0})
    ledger.done(done, "w0")
    with pytest.raises(MessageError, match="is 'heard'"):
        ledger.done(done, "w0")
    ledger.withdraw(3)
    assert ledger.kept == 0
    assert ledger.done(done, "w0") == (16, {"loss": 1.0})
    assert ledger.end(3).loss == 1.0

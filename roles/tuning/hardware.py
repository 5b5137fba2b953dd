"""The model of the cluster that the tuner asks: seconds of an iteration for each number of groups
(hardware efficiency; Omnivore, section 4.1).

The model is fitted to the work that the run has done: the service times of every actor with their
spread, the seconds between two iterations, and what is left for messages. It is the queueing model
of `roles.forecasting`, so the tuner, the live prediction of a run and `plan` have one model.

A probe is compared with the prediction for exactly such a probe: groups that all begin at once are
in each other's way at first. If they differ by more than the error of the prediction, the probe is
believed. The station that explains the difference is named, and the model is fitted to the probe.

Plain arithmetic, which takes up to a second for each number of groups: callers run it in the
compute thread. It comes in pieces, one for each number of groups, since a process whose piece of
work takes too long counts as stuck.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from roles.forecasting.tuned_cluster import Cluster
from roles.tuning.choices import AS_FAST

if TYPE_CHECKING:
    from roles.forecasting.fitted_model import Fit, Fitted

# The error of the prediction of a probe: a part of its seconds, at least, and standard deviations
# of its draws. Predictions of long runs of real work err by 2.3 % (median). A probe is short, and
# the order in which its groups meet is chance: on the virtual clock its prediction errs by 10 %.
ERROR = 0.15
SIGMAS = 3.0
LEAST = 8  # iterations of a probe that can contradict a prediction
# Rounds of all groups in a probe that can be compared, at least; and in a prediction of a long run,
# of which the later half counts. More rounds and draws make a prediction four times as long, while
# the run is held, and change it by about 1 %.
ROUNDS = (2, 24)


@dataclass(frozen=True)
class Work:
    """The work of all actors over some iterations: actor -> label -> number of pieces, seconds, sum
    of squared seconds. `processor`: processor seconds of all processes."""

    sums: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    processor: float = 0.0

    def since(self, before: Work) -> Work:
        """The work that was done after `before`."""
        none: Mapping[str, Sequence[float]] = {}
        return Work(
            {
                actor: {
                    label: tuple(
                        now - then
                        for now, then in zip(
                            sums,
                            before.sums.get(actor, none).get(label, (0.0, 0.0, 0.0)),
                            strict=True,
                        )
                    )
                    for label, sums in labels.items()
                }
                for actor, labels in self.sums.items()
            },
            self.processor - before.processor,
        )

    @property
    def of_training(self) -> dict[str, dict[str, tuple[float, ...]]]:
        """The sums of work that was done and that is training."""
        from roles.forecasting.live_times import NOT_TRAINING

        return {
            actor: {
                label: tuple(sums)
                for label, sums in labels.items()
                if sums[0] and not label.startswith(NOT_TRAINING)
            }
            for actor, labels in self.sums.items()
        }


@dataclass(frozen=True)
class Stretch:
    """A stretch of training: `iterations` of `workers` workers in `groups` groups with a batch of
    `batch` images each, every iteration `seconds` after the one before. `begun`: its groups all
    began at once, as those of a probe do."""

    workers: int
    groups: int
    batch: int
    iterations: int
    seconds: float
    work: Work
    begun: bool = False

    @property
    def rounds(self) -> int:
        """The rounds of a probe; 0: these were iterations of a long run."""
        return self.iterations // self.groups if self.begun else 0


@dataclass(frozen=True)
class Known:
    """What the model says: the seconds of an iteration by groups, in a long run. `why`: how a probe
    differs from its prediction; "" if it does not. `expected`: the predicted seconds of that
    probe; 0 if nothing was predicted."""

    seconds: Mapping[int, float]
    why: str = ""
    expected: float = 0.0


class Hardware:
    """The model of one run's cluster, for these numbers of groups."""

    def __init__(self, cluster: Cluster, counts: Sequence[int]) -> None:
        self._cluster = cluster
        self._counts = tuple(counts)
        self._model: Fitted | None = None
        # actor -> process
        self.home = {
            actor: process["name"]
            for process in cluster.placement["processes"]
            for actor in process["actors"]
        }
        self._known: dict[int, float] = {}
        # what the model says of the groups that it was fitted to, by their own probes
        self._own: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<model of {self._known}>"

    def fit(self, stretch: Stretch) -> Iterator[Known]:
        """Fit the model to a stretch, and predict every number of groups. Yields what is known
        after each piece of work.

        A number of groups that the model was fitted to by an earlier probe keeps the seconds that
        it had then, unless this is training since the last search: the cluster may have changed.
        """
        model = self._fitted()
        model.regroup(stretch.workers, stretch.groups, stretch.batch)
        model.forget()
        spent = stretch.iterations * stretch.seconds * self._cluster.processors
        busy = min(1.0, stretch.work.processor / spent) if spent else 0.0
        rounds = stretch.rounds or ROUNDS[1]
        model.fit(stretch.work.of_training, stretch.seconds, busy, rounds=rounds, draws=1)
        seconds: dict[int, float] = {}
        for groups in self._counts:
            yield Known(dict(self._known))
            found = model.of_groups(groups, rounds=ROUNDS[1], draws=1)
            if found is not None:
                seconds[groups] = found.seconds
        before = self._own if stretch.begun else {}
        self._own = before | {g: seconds[g] for g in (stretch.groups,) if g in seconds}
        self._known = seconds | self._own
        yield Known(dict(self._known))

    def compared(self, stretch: Stretch) -> Iterator[Known]:
        """Compare a probe with its prediction, and fit the model to the probe if they differ by
        more than the error of the prediction. Yields as `fit` does."""
        if stretch.iterations < LEAST or stretch.rounds < ROUNDS[0]:
            yield Known(dict(self._known))
            return
        if self._model is None:
            yield from self.fit(stretch)
            return
        expected = self._model.of_groups(stretch.groups, rounds=stretch.rounds)
        if expected is None or not expected.seconds:
            yield Known(dict(self._known))
            return
        error = max(ERROR, SIGMAS * expected.found.spread) * expected.seconds
        yield Known(dict(self._known), expected=expected.seconds)
        if abs(stretch.seconds - expected.seconds) > error:
            yield from self.fit(stretch)
            yield Known(dict(self._known), self._miss(expected, stretch), expected.seconds)

    def trained(self, stretch: Stretch) -> Iterator[Known]:
        """Fit the model to the training since the last search. `why` names the station if it took
        longer or shorter than the model had predicted. Yields as `fit` does."""
        expected = None
        if self._model is not None:
            expected = self._model.of_groups(stretch.groups, rounds=ROUNDS[1], draws=1)
        yield from self.fit(stretch)
        if expected is None or not expected.seconds:
            return
        if abs(stretch.seconds - expected.seconds) > ERROR * expected.seconds:
            yield Known(dict(self._known), self._miss(expected, stretch))

    def _miss(self, expected: Fit, stretch: Stretch) -> str:
        """The difference between a prediction and a stretch to which the model is fitted by now,
        with the station that explains it. Of interfaces the fitted model tells the work."""
        from roles.forecasting.fitted_model import WAYS
        from roles.forecasting.prediction_error import difference

        rounds = stretch.rounds or ROUNDS[1]
        fitted = self._fitted().of_groups(stretch.groups, rounds=rounds, draws=1) or expected
        foreseen = {name: use * expected.seconds for name, use in expected.use.items()}
        found = {
            name: use * fitted.seconds for name, use in fitted.use.items() if name.endswith(WAYS)
        }
        return difference(
            expected.seconds, stretch.seconds, foreseen, found | self._worked(stretch)
        ).why

    def _fitted(self) -> Fitted:
        """The model, which is made at the first call."""
        from roles.forecasting.fitted_model import Fitted
        from roles.forecasting.prediction import Network
        from runtime.plan.program import checked
        from runtime.plan.topology import Placement

        if self._model is None:
            cluster = self._cluster
            placed = Placement.from_data(cluster.placement)
            placed = Placement(checked(placed.topology), placed.processes)
            network = Network(cluster.latency, cluster.bytes_per_second or None, cluster.interfaces)
            self._model = Fitted(placed, network, learns=True, processors=cluster.processors)
        return self._model

    def _worked(self, stretch: Stretch) -> dict[str, float]:
        """Station -> the seconds of its work in an iteration of the stretch. Actors of one process
        share its device."""
        alone = {
            actor: sum(sums[1] for sums in labels.values()) / stretch.iterations
            for actor, labels in stretch.work.of_training.items()
        }
        shared: defaultdict[str, float] = defaultdict(float)
        for actor, seconds in alone.items():
            shared[self.home[actor]] += seconds
        return {actor: shared[self.home[actor]] for actor in alone}


def fewest(seconds: Mapping[int, float]) -> int:
    """The fewest groups whose iterations take at most AS_FAST times as long as the fastest; 0 if no
    seconds are known."""
    fastest = min(seconds.values(), default=0.0)
    return next((g for g in sorted(seconds) if seconds[g] <= AS_FAST * fastest), 0)

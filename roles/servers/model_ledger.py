"""The ledger of a model server: which group reads which version of a layer, and which gradients are
in the model.

Plain decisions. The server asks the ledger before each action and reports each action to it. The
ledger decides which pulls are answered, and counts updates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from roles.learning.part_counts import Parts, in_parts
from roles.messages import TRAIN, LayerGradient, LayerModel, PullLayer, Updated
from runtime import Conversation, Envelope, Standing

UNREAD = "unread"
ASKED = "asked for"
READ = "read"
ADDING = "adding up"
WHOLE = "complete"
IN = "in the model"
ELSEWHERE = "on another server"
PUBLISH = "publish"
APPLY = "apply"

LAYER = Conversation(
    "a layer of an iteration",
    "iteration group layer",
    UNREAD,
    {
        (UNREAD, PullLayer): (ASKED, READ),  # asked for: the group's last update is not in yet
        (ASKED, PullLayer): (ASKED, READ),
        (ASKED, PUBLISH): (READ,),
        (READ, PullLayer): (READ,),
        (READ, LayerGradient): (ADDING, WHOLE),
        (ADDING, PullLayer): (ADDING,),
        (ADDING, LayerGradient): (ADDING, WHOLE),
        (WHOLE, APPLY): (IN,),
    },
    closed=(ELSEWHERE,),
)
TESTED = Conversation(
    "a layer of a test batch",
    "phase batch layer",
    UNREAD,
    {
        (UNREAD, PullLayer): (UNREAD, READ),  # with one member, it is forgotten at once
        (READ, PullLayer): (READ, UNREAD),  # forgotten with the pull of its last member
    },
    closed=(ELSEWHERE,),
)
PART = in_parts("a part of a layer's gradient", "iteration group layer", LayerGradient)

Pull = tuple[PullLayer, Envelope]


@dataclass
class _Reading:
    """A pass that reads a layer. All its members read one version."""

    model: LayerModel
    missing: int  # members that have not read it yet


class ModelLedger:
    """The ledger of one server. `version` counts the iterations that are in the model completely,
    also the iterations of a run that it resumes."""

    def __init__(self, layers: Iterable[str], version: int = 0) -> None:
        self.version = version
        self._layers = frozenset(layers)
        self._training: Standing[tuple[int, int, str]] = Standing(LAYER, self._unheard)
        self._testing: Standing[tuple[str, int, str]] = Standing(TESTED, self._unheard_test)
        self._parts = Parts(PART)
        self._waiting: list[Pull] = []
        self._reading: dict[tuple[str, int, str], _Reading] = {}  # by phase, number and layer
        self._applied: dict[tuple[int, str], int] = {}  # (group, layer) -> its last iteration
        # a layer of an iteration -> its version then
        self._read: dict[tuple[int, int, str], int] = {}
        self._began: dict[int, int] = {}  # iteration -> the model's version then
        # iteration -> its layers that are in
        self._layers_in: defaultdict[int, int] = defaultdict(int)

    def __repr__(self) -> str:
        return f"<model of {len(self._layers)} layers at {self.version}, {self.kept} under way>"

    @property
    def kept(self) -> int:
        """The number of layers of passes that the ledger remembers."""
        return len(self._training) + len(self._testing)

    def pull(self, pull: PullLayer, asked: Envelope) -> bool:
        """Note a pull of a layer. Return True if the layer may be read now; otherwise the pull
        waits.

        Raises MessageError if the layer is on another server, or the iteration is in the model
        already.
        """
        ready = self._last(pull) >= pull.after
        if pull.phase == TRAIN:
            subject = (pull.number, pull.group, pull.layer)
            state = self._training.check(pull, asked.sender, subject)
            self._training.move(
                PullLayer,
                subject,
                (READ if ready else ASKED) if state in (UNREAD, ASKED) else state,
            )
        else:
            self._testing.check(pull, asked.sender, (pull.phase, pull.number, pull.layer))
        if not ready:
            self._waiting.append((pull, asked))
        return ready

    def publish(self, pull: PullLayer, fresh: LayerModel) -> LayerModel:
        """The answer to a pull: the present version, `fresh`, or the version that the first member
        of the group got."""
        key = (pull.phase, pull.number, pull.layer)
        reading = self._reading.pop(key, None) or _Reading(fresh, pull.members)
        reading.missing -= 1
        if reading.missing > 0:
            self._reading[key] = reading
        if pull.phase != TRAIN:
            self._testing.move(PullLayer, key, READ if reading.missing > 0 else UNREAD)
            return reading.model
        subject = (pull.number, pull.group, pull.layer)
        state = self._training.state(subject)
        if state == ASKED:
            self._training.move(PUBLISH, subject)
        if state in (ASKED, READ, ADDING):
            self._began.setdefault(pull.number, self.version)
            self._read[subject] = reading.model.version
        return reading.model

    def check(self, gradient: LayerGradient, sender: str) -> None:
        """Raise MessageError if this part of a gradient is not allowed."""
        self._training.check(gradient, sender, (gradient.number, gradient.group, gradient.layer))
        self._parts.check(gradient, sender, *_part(gradient))

    def came(self, gradient: LayerGradient, sender: str) -> bool:
        """Note that a checked part of a gradient was added up. Return True if it was the last
        part."""
        whole = self._parts.came(gradient, sender, *_part(gradient))
        subject = (gradient.number, gradient.group, gradient.layer)
        self._training.move(LayerGradient, subject, WHOLE if whole else ADDING)
        return whole

    def applied(self, gradient: LayerGradient, version: int) -> tuple[int, Updated | None]:
        """Note that a whole gradient has made this version of its layer.

        Return the number of updates of the layer since it was read. If it was the iteration's last
        layer, return also the report for the coordinator.
        """
        number = gradient.number
        layer = gradient.layer
        subject = (number, gradient.group, layer)
        self._applied[gradient.group, layer] = number
        self._training.move(APPLY, subject)
        staleness = version - 1 - self._read.pop(subject)
        self._layers_in[number] += 1
        if self._layers_in[number] < len(self._layers):
            return staleness, None
        del self._layers_in[number]
        since = self.version - self._began.pop(number)
        self.version += 1
        return staleness, Updated(number=number, version=self.version, staleness=since)

    def ready(self) -> list[Pull]:
        """Return the pulls that need not wait any longer, and forget them."""
        found = [item for item in self._waiting if self._last(item[0]) >= item[0].after]
        self._waiting = [item for item in self._waiting if item not in found]
        return found

    def _last(self, pull: PullLayer) -> int:
        return self._applied.get((pull.group, pull.layer), -1)

    def _unheard(self, subject: tuple[int, int, str]) -> str:
        number, group, layer = subject
        if layer not in self._layers:
            return ELSEWHERE
        return IN if number <= self._applied.get((group, layer), -1) else UNREAD

    def _unheard_test(self, subject: tuple[str, int, str]) -> str:
        return UNREAD if subject[2] in self._layers else ELSEWHERE


def _part(gradient: LayerGradient) -> tuple[tuple[object, ...], int, int]:
    return (gradient.number, gradient.group, gradient.layer), gradient.part, gradient.parts

"""Pages of the docs that are made from the code: `python -m roles` writes docs/conversations.md,
from the tables of the roles themselves, and `python -m roles messages` docs/messages.md, from the
classes."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterable, Iterator
from types import ModuleType

from roles import messages as training
from roles.coordination.coordinator import Coordinator
from roles.exchange.accumulator import HostAccumulator
from roles.exchange.collective import Collective
from roles.exchange.halving import HalvingExchange
from roles.exchange.host_accumulate import HostExchange
from roles.exchange.per_host import PerHost
from roles.exchange.ring import RingExchange
from roles.exchange.tree_exchange import TreeExchange
from roles.fc import swap
from roles.fc.server import FcServer
from roles.fc.shard import FcShard
from roles.learning import model_holder
from roles.servers.conv_model import ConvModel
from roles.servers.tree_reducer import TreeReducer
from roles.tuning import gradient_statistics
from runtime import Actor, Conversation
from runtime.actors import inspection
from runtime.actors.conversation import Said
from runtime.cluster import clients, lifecycle
from runtime.cluster.lifecycle import LIFE
from runtime.cluster.machines import agent_messages
from runtime.cluster.operators import operator_messages
from runtime.messages import message as basic
from runtime.messages.message import REGISTRY, Message

SPEAKERS: tuple[type, ...] = (
    Coordinator,
    ConvModel,
    TreeReducer,
    FcServer,
    FcShard,
    Collective,
    PerHost,
    TreeExchange,
    RingExchange,
    HalvingExchange,
    HostExchange,
    HostAccumulator,
)
OPENING = """# Which message may come when

This page is made from the tables in the code (`python -m roles`); a test compares. A message that a table does not take
in the state its subject is in is refused with the reason `illegal`, is counted
(`convoy_messages_rejected_total{reason="illegal"}`), and changes nothing. Messages are written `LikeThis`; what the
actor does itself is a verb. Where a row leads to several states, the text at the table's rows in the code says when.
"""
SAID_IN = (
    basic,
    training,
    gradient_statistics,
    swap,
    model_holder,
    lifecycle,
    clients,
    inspection,
    agent_messages,
    operator_messages,
)
MESSAGES = """# Every message

This page is made from the message classes (`python -m roles messages`); a test compares. Which message may come when
stands in [conversations.md](conversations.md). Messages with arrays travel on the bulk lane, all others on the control
lane. On the wire a message is called by its package and its class: `Ticket` is roles.Ticket.
"""
PROCESS = """## A process, at the supervisor

The table is `LIFE` in `runtime/cluster/lifecycle.py`. What does not fit is refused with the reason `illegal_step`.
"""


def markdown() -> str:
    """The page of conversations."""
    life: dict[tuple[str, Said], tuple[str, ...]] = {
        (before.value, event): (after.value,) for (before, event), after in LIFE.items()
    }
    process = Conversation("a process", "process", next(iter(life))[0], life)
    sections = [
        OPENING,
        PROCESS,
        _about(process),
        *(part for speaker in SPEAKERS for part in _of(speaker)),
    ]
    return "\n".join(sections)


def at_any_time(role: type[Actor]) -> list[str]:
    """The messages that a role takes whatever was said before."""
    talks = {said for talk in role.conversations for said in talk.messages}
    own = {
        kind: name
        for kind, name in role.handlers.items()
        if getattr(role, name) is not getattr(Actor, name, None)
    }
    return sorted(kind.__name__ for kind in own if kind not in talks)


def _of(speaker: type) -> Iterator[str]:
    talks: tuple[Conversation, ...] = speaker.conversations  # type: ignore[attr-defined]
    yield f"## `{speaker.__name__}`\n"
    yield f"{_opening(sys.modules[speaker.__module__])}\n\nIn `{speaker.__module__.replace('.', '/')}.py`.\n"
    yield from map(_about, talks)
    anytime = at_any_time(speaker) if issubclass(speaker, Actor) else []
    if anytime:
        yield f"At any time: {', '.join(f'`{name}`' for name in anytime)}.\n"


def _opening(module: ModuleType) -> str:
    """The first paragraph of a module's docstring on one line, however the code is wrapped."""
    return " ".join((module.__doc__ or "").partition("\n\n")[0].split())


def _about(talk: Conversation) -> str:
    """The table, and the states in which nothing may come."""
    lines = [
        (
            f"**{talk.about[0].upper()}{talk.about[1:]}**, known by {_listed(talk.by)}; at "
            f"first *{talk.start}*.\n"
        )
    ]
    lines += ["| state | what comes | leads to |", "| --- | --- | --- |"]
    for (state, said), after in talk.table.items():
        shown = said if isinstance(said, str) else f"`{said.__name__}`"
        lines.append(f"| {state} | {shown} | {' or '.join(after)} |")
    over = [state for state in talk.states if state not in {before for before, _ in talk.table}]
    if over:
        lines.append(f"\nNothing may come in: {', '.join(f'*{state}*' for state in over)}.")
    if talk.never:
        lines.append(
            f"\nLegal in no state: {', '.join(f'`{said.__name__}`' for said in talk.never)}."
        )
    return "\n".join(lines) + "\n"


def messages_page() -> str:
    """Every message, with its fields, as docs/messages.md shows them."""
    lines = [MESSAGES]
    for module in SAID_IN:
        said = [kind for kind in REGISTRY.values() if kind.__module__ == module.__name__]
        lines.append(f"## `{module.__name__}`\n\n{_opening(module)}\n")
        lines += ["| message | lane | fields | means |", "| --- | --- | --- | --- |"]
        lines += [_row(kind) for kind in said] + [""]
    return "\n".join(lines)


def _row(kind: type[Message]) -> str:
    hints = typing.get_type_hints(kind)
    declared = dataclasses.fields(kind)  # type: ignore[arg-type]
    fields = ", ".join(f"`{each.name}` {_type(hints[each.name])}" for each in declared)
    means = " ".join((kind.__doc__ or "").split()).replace("|", "\\|")
    return f"| `{kind.__name__}` | {kind.lane} | {fields} | {means} |"


TYPES: dict[object, str] = {
    basic.Array: "array", tuple[basic.Array, ...]: "arrays", basic.Json: "table",
    tuple[int, ...]: "ints", tuple[float, ...]: "floats", tuple[str, ...]: "strs",
}  # fmt: skip


def _type(annotation: object) -> str:
    """A field's type as people say it."""
    return TYPES.get(annotation) or str(getattr(annotation, "__name__", annotation))


def _listed(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


if __name__ == "__main__":
    sys.stdout.write(messages_page() if sys.argv[1:] == ["messages"] else markdown())

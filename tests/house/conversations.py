"""docs/conversations.md: the messages that are legal in each state, from the tables of the
roles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from runtime import Actor, Conversation
from runtime.actors.conversation import Said
from runtime.cluster.lifecycle import LIFE
from tests.house.source import classes, opening_of

OPENING = """# Which message is legal when

This page is generated from the tables in the code (`python -m tests.house --write`), and a test
compares them. A message that has no row for the current state of its subject is refused with the
reason `illegal`, is counted (`convoy_messages_rejected_total{reason="illegal"}`), and changes
nothing.

Messages are written `LikeThis`; an action of the actor itself is a verb. If a row leads to several
states, the comment at the row in the code explains when.
"""
PROCESS = """## A process, at the supervisor

The table is `LIFE` in `runtime/cluster/lifecycle.py`. A step without a row is refused with the
reason `illegal_step`.
"""


def speakers() -> tuple[type, ...]:
    """The classes of roles that have tables, by file."""
    return tuple(classes(has_tables, "roles"))


def has_tables(declared: ast.ClassDef) -> bool:
    """Whether the class has a line `conversations = ...` or `conversations: ... = ...`."""
    targets = [
        target
        for node in declared.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(ast.unparse(target) == "conversations" for target in targets)


def markdown() -> str:
    """The text of the page."""
    life: dict[tuple[str, Said], tuple[str, ...]] = {
        (before.value, event): (after.value,) for (before, event), after in LIFE.items()
    }
    process = Conversation("a process", "process", next(iter(life))[0], life)
    sections = [
        OPENING,
        PROCESS,
        _about(process),
        *(part for speaker in speakers() for part in _of(speaker)),
    ]
    return "\n".join(sections)


def at_any_time(role: type[Actor]) -> list[str]:
    """The messages that a role accepts in every state."""
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
    yield f"{opening_of(speaker.__module__)}\n\nIn `{speaker.__module__.replace('.', '/')}.py`.\n"
    yield from map(_about, talks)
    anytime = at_any_time(speaker) if issubclass(speaker, Actor) else []
    if anytime:
        yield f"At any time: {', '.join(f'`{name}`' for name in anytime)}.\n"


def _about(talk: Conversation) -> str:
    """The table of a conversation, and the states in which no message is legal."""
    lines = [
        (
            f"**{talk.about[0].upper()}{talk.about[1:]}**, known by {_listed(talk.by)}; at "
            f"first *{talk.start}*.\n"
        )
    ]
    lines += ["| state | message or action | next state |", "| --- | --- | --- |"]
    for (state, said), after in talk.table.items():
        shown = said if isinstance(said, str) else f"`{said.__name__}`"
        lines.append(f"| {state} | {shown} | {' or '.join(after)} |")
    over = [state for state in talk.states if state not in {before for before, _ in talk.table}]
    if over:
        lines.append(f"\nNo message is legal in: {', '.join(f'*{state}*' for state in over)}.")
    if talk.never:
        lines.append(
            f"\nLegal in no state: {', '.join(f'`{said.__name__}`' for said in talk.never)}."
        )
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last

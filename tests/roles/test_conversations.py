"""The tables of the messages that are legal in each state: every message in every state, and every
message that the roles handle."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roles import ROLES
from roles.messages import Contribution, NextTicket, SharedSum
from runtime import Actor, Conversation, Message, MessageError, Standing
from tests.house.conversations import at_any_time, has_tables, speakers
from tests.house.written import COMMAND

ROOT = Path(__file__).resolve().parents[2]
SPEAKERS = speakers()
TALKS = [(speaker.__name__, talk) for speaker in SPEAKERS for talk in speaker.conversations]
# messages to actors that copy their state for checkpoints and probes
OF_KEEPERS = ["GetCopy", "GetStreams", "KeepCopy", "PutBeside", "SetAside", "TakeBack"]
# messages to holders of parameters
OF_HOLDERS = sorted([*OF_KEEPERS, "GetState", "Rates", "SetState"])
MESSAGES = sorted(
    {said for _, talk in TALKS for said in talk.messages}, key=lambda kind: kind.__name__
)
named = pytest.mark.parametrize(
    "talk", [talk for _, talk in TALKS], ids=[f"{who}: {talk.about}" for who, talk in TALKS]
)


def sample(kind: type[Message]) -> Message:
    """A message of this class, with arbitrary values."""
    plain = {
        field.name: {int: 3, float: 0.5, str: "x", bool: False}.get(field.annotation, ())
        for field in kind.plain_fields
    }
    arrays = {
        name: (np.zeros(2),) if several else np.zeros(2) for name, several in kind.array_fields
    }
    return kind(**plain, **arrays)


def subject_of(talk: Conversation) -> tuple[object, ...]:
    return tuple(range(len(talk.by)))


def at(talk: Conversation, state: str) -> Standing[Any]:
    """A standing whose one subject is in that state."""
    return Standing(talk, lambda subject: state)


@named
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_leads_to_the_state_of_its_row_or_is_refused_and_changes_nothing(
    talk: Conversation, kind: type[Message]
) -> None:
    message = sample(kind)
    subject = subject_of(talk)
    for state in talk.states:
        standing = at(talk, state)
        if (state, kind) not in talk.table:
            with pytest.raises(MessageError) as refused:
                standing.hear(message, "somebody", subject)
            assert refused.value.reason == "illegal"
            told = str(refused.value)
            assert all(
                text in told for text in (repr(message), "somebody", talk.about, f"is '{state}'")
            )
            assert all(f"'{place}'" in told for place in talk.takes(kind))
            assert (standing.state(subject), len(standing)) == (state, 0)
        for after in talk.table.get((state, kind), ()):
            standing = at(talk, state)
            standing.hear(message, "somebody", subject, after)
            assert standing.state(subject) == after
            assert after in talk.states


@named
def test_a_message_in_a_state_that_no_row_leads_to_is_refused_too(
    talk: Conversation,
) -> None:
    for (state, said), after in talk.table.items():
        for wrong in {*talk.states, ""} - set(after if len(after) > 1 else (*after, "")):
            standing = at(talk, state)
            with pytest.raises(ValueError, match="does not lead from"):
                standing.move(said, subject_of(talk), wrong)
            assert (standing.state(subject_of(talk)), len(standing)) == (state, 0)


@named
def test_every_message_of_a_table_has_a_row_except_those_that_are_never_legal(
    talk: Conversation,
) -> None:
    assert talk.messages
    assert [kind for kind in talk.messages if not talk.takes(kind)] == list(talk.never)


def test_subjects_whose_state_follows_from_their_number_are_not_stored() -> None:
    talk = Conversation(
        "a day",
        "number",
        "to come",
        {("to come", NextTicket): ("here",), ("here", "end"): ("over",)},
    )
    last = -1
    days: Standing[tuple[int]] = Standing(
        talk, lambda subject: "over" if subject[0] <= last else "to come"
    )
    for number in range(1000):
        days.hear(NextTicket(), "somebody", (number,))
        assert repr(days) == "<1 under way of <conversation about a day: 3 states, 2 rows>>"
        last = number
        days.move("end", (number,))
        assert len(days) == 0
        with pytest.raises(
            MessageError,
            match=(
                rf"illegal: NextTicket\(\) of somebody: a day \(number " rf"{number}\) is 'over'"
            ),
        ):
            days.hear(NextTicket(), "somebody", (number,))


def speakers_in_the_code() -> set[type]:
    """Every class of the roles that has its own tables."""
    found: set[type] = set()
    left: list[type] = [Actor]
    while left:
        cls = left.pop()
        left += cls.__subclasses__()
        found |= (
            {cls}
            if cls.__module__.startswith("roles.") and cls.__dict__.get("conversations")
            else set()
        )
    return found


def test_the_page_describes_every_class_with_tables() -> None:
    lost = [one.__name__ for one in speakers_in_the_code() - set(SPEAKERS)]
    assert lost == [], (
        f"docs/conversations.md lacks these classes. Write `conversations = (...)` in the body of "
        f"the class, at the top level of its module, and run {COMMAND}"
    )
    empty = [speaker.__name__ for speaker in SPEAKERS if not speaker.conversations]
    assert empty == [], "these classes declare conversations without a table: remove the line"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("conversations = (JOB,)", True),
        ("conversations: ClassVar[tuple[Conversation, ...]] = (JOB,)", True),
        ("conversations: ClassVar[tuple[Conversation, ...]]", False),
        ("talks = (JOB,)", False),
    ],
)
def test_a_class_may_declare_its_tables_with_or_without_an_annotation(
    line: str, found: bool
) -> None:
    (declared,) = ast.parse(f"class Jobs(Actor):\n    {line}\n").body
    assert isinstance(declared, ast.ClassDef)
    assert has_tables(declared) is found


def test_every_message_that_a_role_handles_is_in_a_table_or_may_come_at_any_time() -> None:
    """The exceptions are requests while no pass is in progress, and messages that workers pass to
    their exchange, whose tables have them."""
    wanted = {
        "averaging_replica": sorted(
            ["Contribution", "GetReached", "KeepState", *OF_HOLDERS, "SharedSum"]
        ),
        "conv_compute": sorted(["Place", *OF_KEEPERS]),
        "conv_model": sorted(["GetGradientStatistics", *OF_HOLDERS]),
        "conv_replica": sorted(
            ["Contribution", "GetReached", "KeepState", *OF_HOLDERS, "SharedSum"]
        ),
        "coordinator": sorted(
            ["Abandoned", "GetHolders", "HandOver", "PeerLost", "Regroup", "Save", "WindDown"]
        ),
        "fc_server": OF_HOLDERS,
        "fc_shard": OF_HOLDERS,
        "island": sorted(["GetHeld", "GetVersion", "Join", *OF_HOLDERS]),
        "outer_server": OF_HOLDERS,
        "replica": sorted(["Contribution", "GetReached", "KeepState", *OF_HOLDERS, "SharedSum"]),
        "single": OF_HOLDERS,
        "tree_reducer": sorted(["Place", *OF_KEEPERS]),
    }
    found = {name: at_any_time(role) for name, role in ROLES.items() if at_any_time(role)}
    assert found == wanted, (
        "add a row for the message to a table of its role, or list it above if the message may come "
        "at any time"
    )
    exchanges = [speaker for speaker in SPEAKERS if not issubclass(speaker, Actor)]
    assert len(exchanges) == 6
    for exchange in exchanges:
        assert {said for talk in exchange.conversations for said in talk.messages} >= {
            Contribution,
            SharedSum,
        }


def test_no_role_refuses_by_hand_a_message_that_a_table_should_refuse() -> None:
    """The reasons that remain are messages whose values or arrays never fit, whatever the state."""
    reasons = set()
    for path in (ROOT / "roles").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "MessageError":
                reasons.add(ast.literal_eval(node.args[0]))
    assert reasons == {"bad_shape", "bad_value"}

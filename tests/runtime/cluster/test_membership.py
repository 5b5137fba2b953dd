"""The roll of a run: the peers that each process learns of, in messages that are small enough to
travel.
"""

from __future__ import annotations

from runtime.cluster.lifecycle import Hello
from runtime.cluster.membership import Membership
from runtime.messages.message import Envelope
from runtime.messages.wire import encode
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology

NAMES = [f"worker-{number}" for number in range(600)]


def hello(process: str, incarnation: int = 1) -> Hello:
    address = (f"unix:///run/user/1000/convoy-{'x' * 80}/{process}", f"tcp://10.0.0.1:{'4' * 5}")
    return Hello(
        process=process,
        incarnation=incarnation,
        pid=7,
        host_name="h",
        control=address,
        bulk=address,
        arena="a" * 40,
        host="b" * 60,
        metrics_address="127.0.0.1",
        metrics_port=1,
        versions={},
    )


def roll() -> Membership:
    """A lead with six hundred workers on two machines."""
    actors = tuple(ActorSpec(name, "role") for name in ("lead", *NAMES))
    made = Topology("p", actors, tuple(("lead", name) for name in NAMES), "lead")
    specs = (ProcessSpec(actor.name, "ab"[len(actor.name) % 2], (actor.name,)) for actor in actors)
    found = Membership(Placement(made, tuple(specs)))
    found.greetings = {actor.name: hello(actor.name) for actor in actors}
    return found


def test_a_process_learns_of_many_peers_in_several_messages_of_which_the_last_is_marked() -> None:
    pieces = roll().directory("lead")
    for piece in pieces:
        # raises MessageError if the message is too large
        encode(Envelope(piece, 1, "supervisor", 1, "lead/agent"))
    told = [name for piece in pieces for name in piece.peers]
    assert told == NAMES
    assert [piece.more for piece in pieces] == [True] * (len(pieces) - 1) + [False]


def test_a_worker_learns_of_its_neighbours_only_and_gets_an_empty_list_if_it_has_none() -> None:
    made = roll()
    (piece,) = made.directory("worker-3")
    assert (list(piece.peers), piece.more) == (["lead"], False)
    (only,) = made.directory("lead", only="worker-3")
    assert list(only.peers) == ["worker-3"]
    alone = Membership(
        Placement(Topology("p", (ActorSpec("a", "r"),), (), "a"), (ProcessSpec("a", "m", ("a",)),))
    )
    (nothing,) = alone.directory("a")
    assert (nothing.peers, nothing.more) == ({}, False)


def test_a_process_is_named_with_its_machine_and_its_host_once_it_has_greeted() -> None:
    made = roll()
    assert (made.host("lead"), made.life("lead")) == ("a (h, pid 7)", 1)
    made.greetings.clear()
    assert (made.host("lead"), made.life("lead")) == ("a", 0)

"""Places for connections that have not proven anything yet: the connections that hold them, and the
moment when a door may accept the next one.
"""

from __future__ import annotations

from runtime.transport.zmtp.strangers import PROVEN_AFTER, Strangers


class Door:
    """Counts how often it may accept a connection."""

    admitted = 0

    def admit(self) -> None:
        self.admitted += 1


def come(strangers: Strangers, door: Door, connection: int, now: float = 0.0) -> None:
    strangers.come(door, connection, now)
    strangers.next_for(door)


def test_a_door_accepts_while_there_are_places_and_goes_on_when_a_stranger_leaves() -> None:
    strangers = Strangers(2)
    door = Door()
    come(strangers, door, 10)
    assert door.admitted == 1
    come(strangers, door, 11)
    assert door.admitted == 1
    strangers.left(door, 12)  # this connection has no place
    assert door.admitted == 1
    strangers.left(door, 10)
    assert door.admitted == 2


def test_a_proven_connection_gives_its_place_to_the_next() -> None:
    strangers = Strangers(1)
    door = Door()
    come(strangers, door, 10)
    strangers.proven(door)
    assert door.admitted == 1
    strangers.proven(door)  # no unproven connection is left
    strangers.left(door, 10)
    assert door.admitted == 1


def test_waiting_doors_go_on_together_since_no_connection_may_come_to_the_first() -> None:
    strangers = Strangers(1)
    first = Door()
    second = Door()
    come(strangers, first, 10)
    strangers.next_for(second)
    assert (first.admitted, second.admitted) == (0, 0)
    strangers.left(first, 10)
    assert (first.admitted, second.admitted) == (1, 1)


def test_more_strangers_than_places_must_leave_before_a_door_goes_on() -> None:
    strangers = Strangers(1)
    first = Door()
    second = Door()
    strangers.next_for(first)
    strangers.next_for(second)
    come(strangers, first, 10)
    come(strangers, second, 11)
    strangers.left(first, 10)
    assert (first.admitted, second.admitted) == (1, 1)
    strangers.left(second, 11)
    assert (first.admitted, second.admitted) == (2, 2)


def test_a_connection_that_outlived_the_time_for_a_proof_counts_as_proven() -> None:
    strangers = Strangers(2)
    door = Door()
    come(strangers, door, 10, now=0.0)
    come(strangers, door, 11, now=1.0)
    strangers.proven(door)  # connection 10 has proven itself, but its place is still taken
    come(strangers, door, 12, now=2.0)
    assert strangers.tidy(2.5) == PROVEN_AFTER - 2.5
    strangers.left(door, 11)  # its place was freed before
    assert door.admitted == 2
    assert strangers.tidy(PROVEN_AFTER) == 0.0
    assert door.admitted == 3


def test_a_door_that_closes_gives_all_its_places_back_and_is_not_called_again() -> None:
    strangers = Strangers(1)
    closing = Door()
    other = Door()
    come(strangers, closing, 10)
    strangers.next_for(other)
    strangers.forget(closing)
    assert (closing.admitted, other.admitted) == (0, 1)

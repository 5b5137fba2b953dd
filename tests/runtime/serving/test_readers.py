"""The user at the other end of a loopback connection, and the users to whom the pages are shown."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from runtime.serving import readers
from runtime.serving.readers import EVERYBODY, Owners, Readers

FAMILIES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
NOBODY = 65534


@contextmanager
def connection(
    family: socket.AddressFamily, address: str, user: int | None = None
) -> Iterator[socket.socket]:
    """The server's end of a connection over loopback that a process of this user has made."""
    with socket.socket(family) as listening:
        try:
            listening.bind((address, 0))
        except OSError as error:
            pytest.skip(f"{address}: {error}")
        listening.listen()
        program = f"""
import os, socket, sys
{"" if user is None else f"os.setgroups([]); os.setgid({user}); os.setuid({user})"}
there = socket.socket({int(family)})
there.connect({listening.getsockname()[:2]!r})
sys.stdin.read()
"""
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as peer:
            accepted, _ = listening.accept()
            with accepted:
                yield accepted
            peer.communicate()


def user_of(
    family: socket.AddressFamily, theirs: tuple[str, int], ours: tuple[str, int]
) -> int | None:
    with closing(Owners()) as owners:
        return owners.user_of(family, theirs, ours)


def ends(accepted: socket.socket) -> tuple[tuple[str, int], tuple[str, int]]:
    """The peer's address and ours."""
    return accepted.getpeername()[:2], accepted.getsockname()[:2]


@pytest.fixture(params=["asked", "table"])
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With "table" the kernel answers no question for a socket, as if a module were missing."""
    if request.param == "table":
        monkeypatch.setattr(Owners, "_asked", lambda *_: None)
        monkeypatch.setattr(readers, "_answers", lambda: False)
    else:
        monkeypatch.setattr(
            readers, "_in_table", lambda *_: pytest.fail("the table of all sockets was read")
        )


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(("family", "address"), FAMILIES, ids=["v4", "v6"])
def test_the_user_at_the_other_end_is_found(family: socket.AddressFamily, address: str) -> None:
    with connection(family, address) as accepted:
        assert user_of(family, *ends(accepted)) == os.getuid()
        with closing(Readers()) as mine:
            assert mine.admits(family, *ends(accepted))


@pytest.mark.usefixtures("silent")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_admitted_by_name_or_by_the_word_for_all_users_only() -> None:
    family, address = FAMILIES[0]
    name = pwd.getpwuid(NOBODY).pw_name
    with connection(family, address, NOBODY) as accepted:
        assert user_of(family, *ends(accepted)) == NOBODY
        admitted = []
        for names in ((), ("daemon",), (name,), (EVERYBODY,)):
            with closing(Readers(names)) as some:
                admitted.append(some.admits(family, *ends(accepted)))
    assert admitted == [False, False, True, True]


def test_a_peer_on_another_machine_is_not_admitted() -> None:
    far = ("192.0.2.1", 5)
    here = ("192.0.2.2", 6)
    assert user_of(socket.AF_INET, far, here) is None
    with closing(Readers(["somebody"])) as some:
        assert not some.admits(socket.AF_INET, far, here)
    assert Readers([EVERYBODY]).admits(socket.AF_INET, far, here)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(("family", "address"), FAMILIES, ids=["v4", "v6"])
def test_a_connection_that_was_closed_at_its_other_end_has_no_user(
    family: socket.AddressFamily, address: str
) -> None:
    with closing(Readers()) as mine, socket.create_server((address, 0), family=family) as door:
        socket.create_connection(door.getsockname()[:2]).close()
        accepted, _ = door.accept()
        with accepted:
            assert accepted.recv(1) == b""
            assert user_of(family, *ends(accepted)) is None  # the kernel names root
            assert not mine.admits(family, *ends(accepted))


def test_an_answer_to_an_older_question_is_not_taken_for_this_one() -> None:
    class Twice:
        """Asks twice, as if the first answer had come too late."""

        def send(self, question: bytes) -> None:
            asking.send(question)
            asking.send(question)

        def __getattr__(self, name: str) -> Any:
            return getattr(asking, name)

    family, address = FAMILIES[0]
    with closing(Owners()) as owners, connection(family, address) as accepted:
        assert owners._asked(family, *ends(accepted)) == os.getuid()
        asking = owners._kernel
        owners._kernel = Twice()
        assert owners._asked(family, *ends(accepted)) == os.getuid()
        assert owners._asked(family, ("192.0.2.1", 5), ("192.0.2.2", 6)) is None
        assert owners._asked(family, *ends(accepted)) == os.getuid()

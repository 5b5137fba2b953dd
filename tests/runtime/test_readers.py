"""Who is at the other end of a loopback connection, and whom the pages are shown."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runtime.actors import readers
from runtime.actors.readers import EVERYBODY, Readers, user_of

FAMILIES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
NOBODY = 65534


@contextmanager
def connection(family: socket.AddressFamily, address: str, user: int | None = None) -> Iterator[socket.socket]:
    """Our end of a connection over loopback that a process of this user has made."""
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


def ends(accepted: socket.socket) -> tuple[tuple[str, int], tuple[str, int]]:
    """Theirs, ours."""
    return accepted.getpeername()[:2], accepted.getsockname()[:2]


@pytest.fixture(params=["asked", "table"])
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With "table" the kernel answers no question for a socket, as where a module is missing."""
    if request.param == "table":
        monkeypatch.setattr(readers, "_asked", lambda *_: None)
        monkeypatch.setattr(readers, "_answers", lambda: False)
    else:
        monkeypatch.setattr(readers, "_in_table", lambda *_: pytest.fail("the table of all sockets was read"))


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(("family", "address"), FAMILIES, ids=["v4", "v6"])
def test_the_user_at_the_other_end_is_found(family: socket.AddressFamily, address: str) -> None:
    with connection(family, address) as accepted:
        assert user_of(family, *ends(accepted)) == os.getuid()
        assert Readers().admits(family, *ends(accepted))


@pytest.mark.usefixtures("silent")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_admitted_by_name_or_with_everybody_only() -> None:
    family, address = FAMILIES[0]
    name = pwd.getpwuid(NOBODY).pw_name
    with connection(family, address, NOBODY) as accepted:
        assert user_of(family, *ends(accepted)) == NOBODY
        admitted = [
            Readers(names).admits(family, *ends(accepted)) for names in ((), ("daemon",), (name,), (EVERYBODY,))
        ]
    assert admitted == [False, False, True, True]


def test_who_is_not_of_this_machine_is_not_admitted() -> None:
    far, here = ("192.0.2.1", 5), ("192.0.2.2", 6)
    assert user_of(socket.AF_INET, far, here) is None
    assert not Readers(["somebody"]).admits(socket.AF_INET, far, here)
    assert Readers([EVERYBODY]).admits(socket.AF_INET, far, here)

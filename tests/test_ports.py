"""Ports that tests use: each belongs to one test at a time."""

from __future__ import annotations

import socket

import pytest

from tests.helpers import ports
from tests.helpers.ports import free_ports


def test_two_tests_at_the_same_time_get_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    with free_ports() as first:
        monkeypatch.setattr(ports, "GUARDS", range(first - 1, first + 15, 16))
        with pytest.raises(OSError, match="no 3 free ports in a row"), free_ports(3):
            pass
    with free_ports(3) as second:
        assert second == first


def test_a_row_with_a_port_that_is_in_use_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with free_ports(2) as first:
        monkeypatch.setattr(ports, "GUARDS", range(first - 1, first + 15, 16))
    with socket.create_server(("127.0.0.1", first + 1)):
        with free_ports(1) as port:
            assert port == first
        with pytest.raises(OSError, match="no 2 free ports in a row"), free_ports(2):
            pass


def test_ports_are_free_inside_the_block_and_the_one_before_them_after_it() -> None:
    with free_ports(2) as first:
        for port in (first, first + 1):
            socket.create_server(("127.0.0.1", port)).close()
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", first - 1))
    socket.create_server(("127.0.0.1", first - 1)).close()

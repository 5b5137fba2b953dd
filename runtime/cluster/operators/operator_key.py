"""What lets an operator in, as a file: an address, and keys made for him and the runs of one `up`.

`up` writes it into the run directory for its user alone, and removes it when the run ends. The
operator copies it. It is never an argument, and in no environment, log or plan.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runtime.errors import ConfigError
from runtime.machine.private_files import read_secret, replace
from runtime.plan.topology import SUPERVISOR
from runtime.reasons import reason
from runtime.transport import Limits
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair

FILE = "operator.key"
OPERATOR = "operator"  # who the key belongs to
LIMITS = Limits(credit_bytes=4 << 20, message_bytes=4 << 20)  # small words and parts of files
_MOST_BYTES = 64 << 10
_ADDRESS = re.compile(r"[A-Za-z0-9._-]{1,253}:\d{1,5}")


@dataclass(frozen=True)
class OperatorKey:
    """`address`: HOST:PORT, where `up` listens; its public key, the operator's pair."""

    address: str
    up: bytes
    public: bytes
    private: bytes = field(repr=False)

    @property
    def keys(self) -> Keys:
        """For the operator's end."""
        return Keys(public=self.public, private=self.private, peers={SUPERVISOR: self.up})

    def at(self, address: str) -> OperatorKey:
        """The same where another address leads there, as a tunnel's end does."""
        return dataclasses.replace(self, address=address)

    def write(self, path: Path) -> None:
        """For this user only. OSError."""
        said = {
            "address": self.address,
            "up": self.up.hex(),
            "public": self.public.hex(),
            "private": self.private.hex(),
        }
        replace(path, (json.dumps(said, indent=1) + "\n").encode())

    @staticmethod
    def read(path: Path) -> OperatorKey:
        """What `write` wrote. ConfigError if it is not there, is something else, is another user's,
        or others may read it; it never repeats what it found."""
        expected = f"expected a copy of {FILE} of the run's directory"
        try:
            said = json.loads(read_secret(path, _MOST_BYTES))
            keys = [bytes.fromhex(said[name]) for name in ("up", "public", "private")]
            address = said["address"]
        except OSError as error:
            raise ConfigError([f"{path}: {reason(error)}: {expected}"]) from None
        except (KeyError, TypeError, ValueError, RecursionError):
            address = None
            keys = []
        if (
            not isinstance(address, str)
            or not is_address(address)
            or {len(key) for key in keys} != {32}
        ):
            raise ConfigError([f"{path}: {expected}, found something else"])
        return OperatorKey(address, *keys)


def is_address(said: str) -> bool:
    """Is it HOST:PORT?"""
    return _ADDRESS.fullmatch(said) is not None and int(said.rpartition(":")[2]) < 1 << 16


class OperatorKeys:
    """What the runs of one `up` have in common, so that a copy stays good when another run follows:
    the keys, and the port that the first has found."""

    def __init__(self, make: Callable[[], tuple[bytes, bytes]] = key_pair) -> None:
        self._make = make
        self._port = 0
        self._up: tuple[bytes, bytes] | None = None
        self._operator: tuple[bytes, bytes] | None = None

    def __repr__(self) -> str:
        return f"<cards, {'given' if self._up else 'none given yet'}>"

    def keys(self) -> Keys:
        """For the end of `up`; made when they are first asked for."""
        if self._up is None or self._operator is None:
            self._up = self._make()
            self._operator = self._make()
        return Keys(public=self._up[0], private=self._up[1], peers={OPERATOR: self._operator[0]})

    def port(self, wanted: int) -> int:
        """That of the run before, if this one takes any."""
        return wanted or self._port

    def given(self, address: str) -> OperatorKey:
        """For the operator, of an end that listens there."""
        self._port = int(address.rpartition(":")[2])
        keys = self.keys()
        assert self._operator is not None
        return OperatorKey(address, keys.public, *self._operator)

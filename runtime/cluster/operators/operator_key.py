"""The file that admits an operator: an address, and keys for the operator and the runs of one `up`.

`up` writes the file into the run directory, readable by its user only, and removes it when the run
ends. The operator copies it. The key is never a command-line argument, and never appears in an
environment, a log or a plan.
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
OPERATOR = "operator"  # the name of the key's owner
LIMITS = Limits(credit_bytes=4 << 20, message_bytes=4 << 20)  # small messages and parts of files
_MOST_BYTES = 64 << 10
_ADDRESS = re.compile(r"[A-Za-z0-9._-]{1,253}:\d{1,5}")


@dataclass(frozen=True)
class OperatorKey:
    """The content of the file. `address` is HOST:PORT, where `up` listens. `up` is the public key
    of `up`, and `public` and `private` are the operator's pair."""

    address: str
    up: bytes
    public: bytes
    private: bytes = field(repr=False)

    @property
    def keys(self) -> Keys:
        """The keys for the operator's end."""
        return Keys(public=self.public, private=self.private, peers={SUPERVISOR: self.up})

    def at(self, address: str) -> OperatorKey:
        """Return the same key with another address that leads to `up`, such as the end of a
        tunnel."""
        return dataclasses.replace(self, address=address)

    def write(self, path: Path) -> None:
        """Write the file for this user only. Raises OSError."""
        said = {
            "address": self.address,
            "up": self.up.hex(),
            "public": self.public.hex(),
            "private": self.private.hex(),
        }
        replace(path, (json.dumps(said, indent=1) + "\n").encode())

    @staticmethod
    def read(path: Path) -> OperatorKey:
        """Read the file that `write` wrote. Raises ConfigError if it does not exist, has another
        content, belongs to another user, or can be read by others. The error never repeats the
        content."""
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
    """Whether the text is HOST:PORT."""
    return _ADDRESS.fullmatch(said) is not None and int(said.rpartition(":")[2]) < 1 << 16


class OperatorKeys:
    """The keys and the port that the runs of one `up` share, so that a copy of the file stays valid
    when another run follows."""

    def __init__(self, make: Callable[[], tuple[bytes, bytes]] = key_pair) -> None:
        self._make = make
        self._port = 0
        self._up: tuple[bytes, bytes] | None = None
        self._operator: tuple[bytes, bytes] | None = None

    def __repr__(self) -> str:
        return f"<cards, {'given' if self._up else 'none given yet'}>"

    def keys(self) -> Keys:
        """Return the keys for the end of `up`. They are made at the first call."""
        if self._up is None or self._operator is None:
            self._up = self._make()
            self._operator = self._make()
        return Keys(public=self._up[0], private=self._up[1], peers={OPERATOR: self._operator[0]})

    def port(self, wanted: int) -> int:
        """Return the wanted port or, if any port will do, the port of the run before."""
        return wanted or self._port

    def given(self, address: str) -> OperatorKey:
        """Return the operator's key for an end that listens at this address."""
        self._port = int(address.rpartition(":")[2])
        keys = self.keys()
        assert self._operator is not None
        return OperatorKey(address, keys.public, *self._operator)

"""What lets a process into the links of its run, and tells it who else may come in. `up` makes it
anew for each run.

Over loopback a process shows the `secret` of its run. Between hosts links are encrypted, and each
end proves by its key who it is (CURVE, RFC 25 and 26). The keys of a process are one piece of
bytes, which lies in the private folder of the sockets on its host: never in the run directory, a
log, an argument or the environment.

See docs/decisions/security.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path

from runtime.errors import LaunchError
from runtime.machine.private_files import read_secret, write_new
from runtime.reasons import reason

USER = b"convoy"  # PLAIN has a user's name; the secret is what counts


@dataclass(frozen=True, slots=True)
class Keys:
    """Of one process. `secret`: what all of its run show over loopback; "": nobody is asked there.
    `public` and `private`: its own pair; `peers`: process -> public key: these may come in, and
    each as itself only. Keys have 32 bytes; none: this run encrypts nothing."""

    secret: str = field(default="", repr=False)
    public: bytes = field(default=b"", repr=False)
    private: bytes = field(default=b"", repr=False)
    peers: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def admitted(self, mechanism: bytes, credentials: Sequence[bytes]) -> tuple[bytes, str]:
        """(who may come in, ""), or (b"", why not): ZeroMQ's question when a stranger shows these
        by a mechanism."""
        shown = bytes(credentials[-1]) if credentials else b""
        if mechanism == b"CURVE":
            who = next((peer for peer, key in self.peers.items() if key == shown), "")
            return who.encode(), "" if who else "its key is none of this process's peers"
        knows = (
            mechanism == b"PLAIN"
            and bool(self.secret)
            and compare_digest(shown, self.secret.encode())
        )
        return (USER, "") if knows else (b"", "it does not know this run's secret")

    def answered(self, request: Sequence[bytes]) -> tuple[list[bytes], str, str]:
        """ZeroMQ's question whether a stranger may come in (RFC 27): the answer, who asks, why not:
        "" if it may."""
        version, number, _, address, _, mechanism, *credentials = (
            bytes(frame) for frame in request
        )
        who, why = self.admitted(mechanism, credentials)
        answer = [version, number, b"200" if who else b"400", b"", who, b""]
        return answer, f"a stranger at {address.decode(errors='replace')}", why

    def blob(self) -> bytes:
        """All of it, to be handed to its process on whatever host; `of` reads it."""
        peers = {peer: key.hex() for peer, key in self.peers.items()}
        return json.dumps([self.secret, self.public.hex(), self.private.hex(), peers]).encode()

    @staticmethod
    def of(blob: bytes) -> Keys:
        """What `blob` gave."""
        secret, public, private, peers = json.loads(blob)
        every = {peer: bytes.fromhex(key) for peer, key in peers.items()}
        return Keys(secret, bytes.fromhex(public), bytes.fromhex(private), every)

    def write(self, path: Path) -> None:
        """As a new file that nobody else may read. OSError."""
        write_new(path, self.blob())

    @staticmethod
    def read(path: Path) -> Keys:
        """What `write` wrote. LaunchError if it is not there, is something else, is another user's,
        or others may read it."""
        try:
            return Keys.of(read_secret(path))
        except OSError as error:
            why = reason(error)
        except (ValueError, TypeError, AttributeError):
            why = "not the keys of a process, or damaged"
        raise LaunchError(
            f"{path}: {why}: the keys of this process, which whatever starts it brings there"
        )


NO_KEYS = Keys()


def pretends(owner: str, identity: bytes) -> str:
    """Why a message with this identity is not from the owner of the key that sealed it; "" if it
    is."""
    if identity.startswith(f"{owner}/".encode()):
        return ""
    return f"it claims to be {identity.decode(errors='replace')}, and its key is that of {owner}"

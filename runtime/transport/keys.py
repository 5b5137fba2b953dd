"""The keys of a process: they let it into the links of its run, and identify the peers that may
connect to it. `up` makes new keys for each run.

Over loopback a process shows the `secret` of its run. Between hosts links are encrypted, and each
end proves its identity by its key (CURVE, RFC 25 and 26). The keys of a process are one file in the
private folder of the sockets on its host. They are never in the run directory, a log, an argument
or the environment.

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

USER = b"convoy"  # PLAIN needs a user name; only the secret counts


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one process. Keys have 32 bytes; without keys, the run encrypts nothing.

    - `secret`: shown over loopback by all processes of the run. "": no secret is asked for.
    - `public` and `private`: the process's own key pair.
    - `peers`: process -> public key. These peers may connect, each under its own name only.
    """

    secret: str = field(default="", repr=False)
    public: bytes = field(default=b"", repr=False)
    private: bytes = field(default=b"", repr=False)
    peers: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def admitted(self, mechanism: bytes, credentials: Sequence[bytes]) -> tuple[bytes, str]:
        """Judge the credentials that a peer shows with a ZeroMQ mechanism. Returns (name of the
        peer, "") if it may connect, and (b"", reason) if not."""
        shown = bytes(credentials[-1]) if credentials else b""
        if mechanism == b"CURVE":
            who = next((peer for peer, key in self.peers.items() if key == shown), "")
            return who.encode(), "" if who else "its key belongs to none of this process's peers"
        knows = (
            mechanism == b"PLAIN"
            and bool(self.secret)
            and compare_digest(shown, self.secret.encode())
        )
        return (USER, "") if knows else (b"", "it does not know this run's secret")

    def answered(self, request: Sequence[bytes]) -> tuple[list[bytes], str, str]:
        """Answer ZeroMQ's question whether a peer may connect (RFC 27).

        Returns the answer's frames, a description of the peer, and the reason for a refusal ("" if
        it may connect).
        """
        version, number, _, address, _, mechanism, *credentials = (
            bytes(frame) for frame in request
        )
        who, why = self.admitted(mechanism, credentials)
        answer = [version, number, b"200" if who else b"400", b"", who, b""]
        return answer, f"a stranger at {address.decode(errors='replace')}", why

    def blob(self) -> bytes:
        """Return the keys as bytes, to be given to the process on any host. `of` reads them."""
        peers = {peer: key.hex() for peer, key in self.peers.items()}
        return json.dumps([self.secret, self.public.hex(), self.private.hex(), peers]).encode()

    @staticmethod
    def of(blob: bytes) -> Keys:
        """Return the keys in `blob`."""
        secret, public, private, peers = json.loads(blob)
        every = {peer: bytes.fromhex(key) for peer, key in peers.items()}
        return Keys(secret, bytes.fromhex(public), bytes.fromhex(private), every)

    def write(self, path: Path) -> None:
        """Write the keys to a new file that only this user can read. Raises OSError."""
        write_new(path, self.blob())

    @staticmethod
    def read(path: Path) -> Keys:
        """Read the keys that `write` wrote. Raises LaunchError if the file does not exist, does not
        hold keys, belongs to another user, or can be read by others."""
        try:
            return Keys.of(read_secret(path))
        except OSError as error:
            why = reason(error)
        except (ValueError, TypeError, AttributeError):
            why = "not the keys of a process, or damaged"
        raise LaunchError(
            f"{path}: {why}: expected the keys of this process, which its launcher writes there"
        )


NO_KEYS = Keys()


def pretends(owner: str, identity: bytes) -> str:
    """Return why a message with this identity is not from the owner of the key that encrypted it,
    or "" if it is."""
    if identity.startswith(f"{owner}/".encode()):
        return ""
    return f"it claims to be {identity.decode(errors='replace')}, but its key belongs to {owner}"

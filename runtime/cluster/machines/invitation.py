"""The line that admits an agent: keys that `up` makes for one machine and one run. The agent gets
it on standard input.

    <public key of `up`> <public key of the agent> <its private key> <seconds> [attached]

After so many seconds without a sign of life, `up` counts as dead. With `attached`, the process that
starts the agent keeps the agent's standard input open, and the agent ends when it closes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runtime.cluster.machines.agent_messages import UP
from runtime.errors import ConfigError
from runtime.transport.keys import Keys

ATTACHED = "attached"
_KEY = re.compile(r"[0-9a-f]{64}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Invitation:
    """The invitation of one machine."""

    up: bytes
    public: bytes
    private: bytes = field(repr=False)
    link_seconds: float
    attached: bool = False

    @property
    def line(self) -> str:
        """The line that the agent reads."""
        keys = [key.hex() for key in (self.up, self.public, self.private)]
        return " ".join([*keys, f"{self.link_seconds:g}", *([ATTACHED] if self.attached else [])])

    @property
    def tag(self) -> str:
        """A short word that tells this invitation from the others of its machine."""
        return self.public.hex()[:16]

    @property
    def keys(self) -> Keys:
        """The keys for the agent's end of the link."""
        return Keys(public=self.public, private=self.private, peers={UP: self.up})

    @staticmethod
    def read(line: str) -> Invitation:
        """Parse a line. Raises ConfigError if it is not an invitation; the error does not repeat
        the line."""
        words = line.split()
        keys = words[:3]
        rest = words[3:]
        if not (
            all(map(_KEY.fullmatch, keys))
            and rest
            and _SECONDS.fullmatch(rest[0])
            and rest[1:] in ([], [ATTACHED])
        ):
            text = (
                "expected the line that `up` shows for this machine: three keys of 64 "
                "hexadecimal digits, and seconds"
            )
            raise ConfigError([f"standard input: found {_shape(words)}, {text}"])
        up, public, private = map(bytes.fromhex, keys)
        return Invitation(up, public, private, float(rest[0]), bool(rest[1:]))


def _shape(words: list[str]) -> str:
    return (
        "nothing"
        if not words
        else (f"{len(words)} words of {', '.join(str(len(word)) for word in words[:4])} characters")
    )

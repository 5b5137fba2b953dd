"""The line that lets an agent in: keys that `up` makes for one machine and one run. It travels on standard input.

    <public key of `up`> <public key of the agent> <its private key> [attached]

Whoever says `attached` holds the agent's standard input open: when that closes, the agent ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runtime.cluster.machines.words import UP
from runtime.errors import ConfigError
from runtime.transport.keys import Keys

ATTACHED = "attached"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Invitation:
    """Of one machine."""

    up: bytes
    public: bytes
    private: bytes = field(repr=False)
    attached: bool = False

    @property
    def line(self) -> str:
        """What the agent reads."""
        keys = [key.hex() for key in (self.up, self.public, self.private)]
        return " ".join([*keys, *([ATTACHED] if self.attached else [])])

    @property
    def keys(self) -> Keys:
        """For the agent's end of the link."""
        return Keys(public=self.public, private=self.private, peers={UP: self.up})

    @staticmethod
    def read(line: str) -> Invitation:
        """ConfigError if this is not what `line` gave; it does not repeat what it was given."""
        words = line.split()
        keys, rest = words[:3], words[3:]
        if len(keys) < 3 or not all(map(_KEY.fullmatch, keys)) or rest not in ([], [ATTACHED]):
            text = "expected the line that `up` shows for this machine: three keys of 64 hexadecimal digits each"
            raise ConfigError([f"standard input: found {_shape(words)}, {text}"])
        up, public, private = map(bytes.fromhex, keys)
        return Invitation(up, public, private, bool(rest))


def _shape(words: list[str]) -> str:
    return "nothing" if not words else f"{len(words)} words of {', '.join(str(len(word)) for word in words[:4])} signs"

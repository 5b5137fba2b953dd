"""The keys of a run: the keys that each of its processes gets. New keys are made for each run.
`transport/keys.py` has their format.

Each process has its own pair of keys. A thief of one key can therefore act only as that one
process, and the sender of a message is proved by the key that sealed it.

See docs/decisions/security.md.
"""

from __future__ import annotations

import secrets

from runtime.plan.topology import SUPERVISOR, Placement
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair


def credentials_later(mine: Keys) -> Keys:
    """Return the keys of a process that is started while the run goes on. `mine` are the keys of
    the supervisor. It connects to processes of its host only, so no peer needs its public key."""
    return Keys(mine.secret, *(key_pair() if mine.public else ()))


def credentials(placement: Placement, *, encrypted: bool) -> dict[str, Keys]:
    """Return the keys of every process and of the supervisor. The supervisor knows the public keys
    of all processes. A process knows those of the supervisor and of the processes that it exchanges
    messages with."""
    secret = secrets.token_urlsafe(32)
    names = [spec.name for spec in placement.processes]
    if not encrypted:
        return dict.fromkeys([SUPERVISOR, *names], Keys(secret))
    pairs = {name: key_pair() for name in (SUPERVISOR, *names)}
    peers = {name: {SUPERVISOR, *placement.neighbours(name)} - {name} for name in names}
    peers[SUPERVISOR] = set(names)
    return {
        name: Keys(secret, *pairs[name], {peer: pairs[peer][0] for peer in sorted(known)})
        for name, known in peers.items()
    }

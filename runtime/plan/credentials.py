"""The keys of a run, made anew for each: what each of its processes is given, see
`transport/keys.py`.

A pair per process, not one for the run: a key that is stolen lets its thief be that process and no
other, and who a message is from is whose key it was sealed with.

See docs/decisions/security.md.
"""

from __future__ import annotations

import secrets

from runtime.plan.topology import SUPERVISOR, Placement
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair


def credentials(placement: Placement, *, encrypted: bool) -> dict[str, Keys]:
    """For every process and the supervisor, which knows all of them; the others know the supervisor
    and those that they exchange messages with."""
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

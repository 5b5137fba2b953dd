"""Checking whether a plan fits into memory, before anything starts: the bytes that its actors will
hold are compared with the memory of the machine."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.errors import ConfigError
from runtime.plan.forecast import shown

MOST_NAMED = 3


def warned(held: Mapping[str, int], total: int | None, available: int | None) -> list[str]:
    """Return warnings if the actors do not fit into the memory that is free now.

    `held` has the least number of bytes of each actor. The machine has `total` bytes, of which
    `available` are not in use; each is None if it is not known. Raises ConfigError if the actors
    can never fit.
    """
    needed = sum(held.values())
    largest = sorted(held, key=lambda actor: -held[actor])[:MOST_NAMED]
    told = (
        f"the actors will hold at least {shown(needed)} "
        f"({', '.join(f'{who} {shown(held[who])}' for who in largest)}"
    )
    told += ", ...)" if len(held) > MOST_NAMED else ")"
    if total is not None and needed > total:
        mend = "use a smaller batch or net, or fewer workers; `plan` shows what each holds"
        raise ConfigError(
            [
                (
                    f"memory: {told}, but this machine (or its control group) has "
                    f"{shown(total)}: {mend}"
                )
            ]
        )
    if available is not None and needed > available:
        return [
            (
                f"memory: {told}, but only {shown(available)} of this machine are free now: "
                "the kernel may kill roles"
            )
        ]
    return []

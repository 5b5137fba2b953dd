"""The shares and rates of each actor between two looks at a run. Plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.cli.watch.run_sampling import Look, State
from runtime.data_waits import DATA
from runtime.durations import duration

WAITED = 0.01  # the least share of the time that is shown


@dataclass(frozen=True)
class Row:
    """One actor. Shares are of the time between the looks, and rates are per second. `oldest` is
    the wait of the oldest message in its inbox, in seconds. `predicted` is the predicted share of
    computing, or None."""

    actor: str
    process: str
    role: str = ""
    state: str = ""
    computing: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)
    inbox: int = 0
    oldest: float | None = None
    messages: float | None = None
    bytes: float | None = None
    predicted: float | None = None

    def plain(self) -> dict[str, Any]:
        """The fields of the row, for scripts."""
        return {
            name: dict(value) if name == "waits" else value for name, value in vars(self).items()
        }


def rows(
    before: Look, after: Look, homes: Mapping[str, str], predicted: Mapping[str, float]
) -> list[Row]:
    """The rows of all actors, in the order of their names. If the process of an actor does not
    answer, its row shows for how long."""
    return [
        _row(actor, homes[actor], before, after, predicted.get(actor)) for actor in sorted(homes)
    ]


def _row(actor: str, process: str, before: Look, after: Look, predicted: float | None) -> Row:
    state = after.states.get(process)
    earlier = before.states.get(process)
    if state is None:
        text = f"no answer for {after.silent.get(process, 0.0):.0f} s"
        return Row(actor, process, state=text, predicted=predicted)
    now = state["actors"].get(actor)
    if now is None:
        return Row(actor, process, state="not started yet", predicted=predicted)
    row = Row(
        actor,
        process,
        now["role"],
        doing(now),
        inbox=now["inbox"],
        oldest=now["oldest"] and now["oldest"][1],
        predicted=predicted,
    )
    then = earlier and earlier["actors"].get(actor)
    if not earlier or not then or state["now"] <= earlier["now"]:
        return row
    span = state["now"] - earlier["now"]
    total = waited(now)
    total_then = waited(then)
    shares = {peer: min(1.0, (total[peer] - total_then.get(peer, 0.0)) / span) for peer in total}
    longest = sorted(shares, key=lambda peer: -shares[peer])
    return Row(
        **{
            **vars(row),
            # array work waits for data in the compute thread, which is then busy with nothing
            "computing": max(
                0.0, min(1.0, (now["busy"] - then["busy"]) / span) - shares.get(DATA, 0.0)
            ),
            "waits": {peer: shares[peer] for peer in longest if shares[peer] >= WAITED},
            "messages": (now["sent"] + now["received"] - then["sent"] - then["received"]) / span,
            "bytes": (now["bytes"] - then["bytes"]) / span,
        }
    )


def doing(actor: State) -> str:
    """The activity of an actor, in words. If there are several, the one that holds it up."""
    if actor["computing"]:
        label, seconds = actor["computing"]
        return f"computing {label} for {duration(seconds)}"
    if actor["sends"]:
        peer, kind = actor["sends"][0]
        return f"sending {kind} to {peer}: no room on the link"
    if actor["asks"]:
        peer, kind, seconds = actor["asks"][0]
        return f"waits for {peer} ({kind}) for {duration(seconds)}"
    return f"handling {actor['handling']}" if actor["handling"] else "idle"


def waited(actor: State) -> dict[str, float]:
    """The seconds that the actor has waited for each peer, including its present waits."""
    total = dict(actor["waited"])
    for peer, _, seconds in actor["asks"]:
        total[peer] = total.get(peer, 0.0) + seconds
    return total

"""The state of a pod in words, from the output of `kubectl get pods -o json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.terminal_text import bounded, one_line

HOPELESS = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "CreateContainerConfigError",
)
TERMINATED = 128 + 15  # the exit code of a container that SIGTERM has ended
USUAL = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True)
class State:
    """The state of one pod. `waiting` is what it waits for. `hopeless` is True if the wait will not
    end by itself. `ended` is how it has ended. `asked` is True if it ended because it was told to,
    as all pods of a set are when one of them has failed."""

    waiting: str = ""
    hopeless: bool = False
    ended: str = ""
    asked: bool = False

    @property
    def unusual(self) -> bool:
        """Whether it waits for something that a person or the cluster must provide."""
        return bool(self.waiting) and not self.waiting.endswith(USUAL)


def state(pod: dict[str, Any]) -> State:
    """Return the state of a pod."""
    name = f"pod {pod['metadata']['name']}"
    status = pod.get("status", {})
    agents = status.get("containerStatuses") or [{}]
    now = agents[0].get("state", {})
    if "terminated" in now:
        end = now["terminated"]
        asked = end.get("exitCode") == TERMINATED or "ended by SIGTERM" in end.get("message", "")
        return State(ended=f"{name}: {_end(end, status)}", asked=asked and not status.get("reason"))
    if status.get("phase") in ("Failed", "Succeeded"):
        return State(ended=f"{name}: {_told(status, 'ended')}")
    if "waiting" in now:
        reason = now["waiting"].get("reason", "")
        return State(
            (f"{name} waits: {_told(now['waiting'], 'no reason is given')}"), reason in HOPELESS
        )
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return State(f"{name} waits: {_told(condition, 'it has no node')}")
    return State() if "running" in now else State(f"{name} waits: ContainerCreating")


def _end(terminated: dict[str, Any], status: dict[str, Any]) -> str:
    reason = status.get("reason") or terminated.get("reason") or "ended"
    text = f"{reason} (exit code {terminated.get('exitCode', '?')})"
    last = next(
        (line for line in reversed(terminated.get("message", "").splitlines()) if line.strip()), ""
    )
    said = status.get("message") or last
    return f"{text}: {bounded(one_line(said.strip()))}" if said else text


def _told(where: dict[str, Any], otherwise: str) -> str:
    said = [where[key] for key in ("reason", "message") if where.get(key)]
    return bounded(one_line(": ".join(said))) or otherwise

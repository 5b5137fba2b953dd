"""Machines as objects of Kubernetes. These functions only make plain data.

There is one JobSet, with a replicated job for each shape of machine and a pod for each machine. One
Secret belongs to the JobSet and is removed with it. For each pod it has a key, `JOB-INDEX`, with
the machine's name and the line that admits its agent.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.config.engines import Kubernetes
    from runtime.config.sections import Machine  # importing it loads pydantic

API = "jobset.x-k8s.io/v1alpha2"
SET = "jobset.sigs.k8s.io/jobset-name"  # labels of a pod
JOB = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "batch.kubernetes.io/job-completion-index"  # annotation of a pod
CARD = "nvidia.com/gpu"
LINES = "/var/run/convoy"  # the folder in a pod with its line
MOST_NAME = 40  # a pod is called NAME-JOB-0-INDEX-xxxxx, with at most 63 characters
# a set that has ended is kept so long, for `up` to read how; then Kubernetes removes it
KEEP_SECONDS = 60
GRACE_SECONDS = 5  # an agent ends at once

Object = dict[str, Any]


@dataclass(frozen=True)
class Pods:
    """The pod of each machine: its job and its index there."""

    name: str
    places: Mapping[str, tuple[str, int]]  # machine -> (job, index)

    def machine(self, pod: Object) -> str | None:
        """Return the machine of a pod, or None if the pod is not in this set."""
        meta = pod["metadata"]
        index = {**meta.get("labels", {}), **meta.get("annotations", {})}.get(INDEX, "")
        place = meta.get("labels", {}).get(JOB), int(index) if index.isdecimal() else -1
        return next((machine for machine, mine in self.places.items() if mine == place), None)


def unique_name(run: str) -> str:
    """Return a name for the objects of a run: a DNS label that no other run has, nor this run after
    a restart."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    return f"convoy-{plain[: MOST_NAME - 15]}".strip("-") + f"-{secrets.token_hex(3)}"


def shapes(machines: Sequence[Machine]) -> dict[str, list[Machine]]:
    """Return job -> its machines. Machines of one job have the same settings for their pods."""
    found: dict[Any, list[Machine]] = {}
    for machine in machines:
        kind = (
            machine.cores,
            cards(machine),
            machine.python,
            machine.directory,
            *sorted(machine.environment.items()),
        )
        found.setdefault(kind, []).append(machine)
    return {f"m{number}": alike for number, alike in enumerate(found.values())}


def cards(machine: Machine) -> int:
    """Return the number of GPUs that the machine needs to have its highest device index."""
    indices = [
        int(match[1])
        for device in machine.devices
        if (match := re.fullmatch(r"cuda:(\d+)", device))
    ]
    return max(indices, default=-1) + 1


def pods_of(name: str, machines: Sequence[Machine]) -> Pods:
    """Return the pods of these machines."""
    jobs = shapes(machines).items()
    return Pods(
        name, {each.name: (job, index) for job, alike in jobs for index, each in enumerate(alike)}
    )


def job_set(name: str, machines: Sequence[Machine], address: str, wishes: Kubernetes) -> Object:
    """Return the JobSet with all pods of a run. `address` is the address that agents dial."""
    jobs = [_job(job, alike, name, address, wishes) for job, alike in shapes(machines).items()]
    spec = {
        "replicatedJobs": jobs,
        # pods are reached by their addresses, so no Service is made
        "network": {"enableDNSHostnames": False},
        "failurePolicy": {"maxRestarts": 0},  # `up` decides about restarts
        "ttlSecondsAfterFinished": KEEP_SECONDS,
    }
    return {"apiVersion": API, "kind": "JobSet", "metadata": {"name": name}, "spec": spec}


def secret(pods: Pods, lines: Mapping[str, str], owner: str) -> Object:
    """Return the Secret with the lines of all machines. `owner` is the uid of the JobSet."""
    belongs = {"apiVersion": API, "kind": "JobSet", "name": pods.name, "uid": owner}
    data = {
        f"{job}-{index}": f"{each}\n{lines[each]}\n" for each, (job, index) in pods.places.items()
    }
    meta = {"name": pods.name, "ownerReferences": [belongs]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "immutable": True,
        "stringData": data,
    }


def _job(job: str, alike: Sequence[Machine], name: str, address: str, wishes: Kubernetes) -> Object:
    mounts = [{"name": "lines", "mountPath": LINES, "readOnly": True}]
    items = [{"key": f"{job}-{index}", "path": f"{job}-{index}"} for index in range(len(alike))]
    volumes: list[Object] = [{"name": "lines", "secret": {"secretName": name, "items": items}}]
    for number, (path, source) in enumerate(wishes.volumes.items()):
        said = (
            {"persistentVolumeClaim": {"claimName": source}} if isinstance(source, str) else source
        )
        volumes.append({"name": f"volume-{number}", **said})
        mounts.append({"name": f"volume-{number}", "mountPath": path})
    container: Object = {
        "name": "agent",
        "image": wishes.image,
        "command": ["/bin/sh", "-c", _verbatim(_script(job, alike[0], address))],
        "env": [
            {"name": key, "value": _verbatim(value)} for key, value in alike[0].environment.items()
        ],
        "volumeMounts": mounts,
        # the last lines of its log are then in the state of its pod
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if amounts := _amounts(alike[0], wishes):
        container["resources"] = {"requests": amounts, "limits": amounts}
    pod: Object = {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SECONDS}
    if wishes.service_account:
        pod["serviceAccountName"] = wishes.service_account
    if wishes.node_selector:
        pod["nodeSelector"] = wishes.node_selector
    if wishes.tolerations:
        pod["tolerations"] = list(wishes.tolerations)
    pod |= {"containers": [container], "volumes": volumes}
    spec = {
        "completionMode": "Indexed",
        "completions": len(alike),
        "parallelism": len(alike),
        "backoffLimit": 0,
        # removes pods that wait for an `up` that has died
        "activeDeadlineSeconds": int(wishes.most_seconds),
        "template": {"spec": pod},
    }
    return {"name": job, "replicas": 1, "template": {"spec": spec}}


def _script(job: str, machine: Machine, address: str) -> str:
    """Return the script of a pod. `read` takes the first line of its file, the machine's name. The
    agent reads the next line from the same file."""
    there = "" if machine.directory is None else f"cd {shlex.quote(machine.directory)} && "
    argv = shlex.join([machine.python or "python3", "-m", "runtime", "join", address])
    return (
        f'{there}{{ read -r machine && exec {argv} "$machine"; }} < '
        f"{LINES}/{job}-$JOB_COMPLETION_INDEX"
    )


def _amounts(machine: Machine, wishes: Kubernetes) -> dict[str, str]:
    found = {} if machine.cores is None else {"cpu": str(machine.cores)}
    found |= {CARD: str(cards(machine))} if cards(machine) else {}
    return found | {name: str(amount) for name, amount in wishes.resources.items()}


def _verbatim(text: str) -> str:
    """Escape text for Kubernetes, which replaces $(NAME) with a variable, unless the dollar sign is
    doubled."""
    return text.replace("$", "$$")

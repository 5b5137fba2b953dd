"""A double of a Kubernetes cluster and its kubectl.

Objects are files of a folder and are validated by the published schemas. A pod's container is a
local process, which gets its command, its variables and the files of the Secret as from a kubelet.

Tests call kubectl every tenth of a second, so only the code that makes objects imports more than
the standard library.

The folder may have `fault` (a word that names a failure) and `namespaces` (one network namespace a
line, each for one pod).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = Path(__file__).parent / "kubernetes_schemas" / "schemas.json"
KINDS = {"JobSet": "JobSet", "Secret": "io.k8s.api.core.v1.Secret"}
FAULTS = {
    "no-job-sets": 'error: resource mapping not found for name: "x" namespace: "" from '
    '"STDIN": no matches for kind '
    '"JobSet" in version "jobset.x-k8s.io/v1alpha2"\nensure CRDs are installed first',
    "forbidden": (
        "Error from server (Forbidden): jobsets.jobset.x-k8s.io is forbidden: User "
        '"me" cannot create it'
    ),
    "namespace": (
        'Error from server (NotFound): error when creating "STDIN": namespaces "x" not found'
    ),
}
WAITS = {"image": ("ImagePullBackOff", 'Back-off pulling image "convoy:none": not found')}
# a container has its own /run, which holds a pod's private mounts
INSIDE = 'mount -t tmpfs run /run && mkdir -p "$1" && cp "$0"/* "$1" && shift && exec "$@"'


def mistakes(thing: dict[str, Any]) -> list[str]:
    """The errors that the schemas find in an object."""
    from jsonschema import Draft202012Validator

    schema = {**json.loads(SCHEMAS.read_text()), "$ref": f"#/$defs/{KINDS[thing['kind']]}"}
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(thing)
    ]


def installed(folder: Path) -> dict[str, str]:
    """An environment in which `kubectl` is this double."""
    from tests.helpers.far_machines import program
    from tests.helpers.support import environment

    (folder / "objects").mkdir(parents=True)
    call = (
        f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.helpers.kubernetes_cluster {folder} "$@"'
    )
    program(folder / "bin" / "kubectl", call)
    return {**environment(), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def expanded(text: str, variables: dict[str, str]) -> str:
    """Replace variables as Kubernetes does: $(NAME) by its value, and $$ by a single $."""
    found = re.compile(r"\$(\$|\((\w+)\))")
    return found.sub(
        lambda match: "$" if match[1] == "$" else variables.get(match[2], match[0]), text
    )


class Cluster:
    """The effects of kubectl's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = folder / "objects"
        self.fault = (folder / "fault").read_text() if (folder / "fault").exists() else ""

    def create(self, text: str) -> str:
        """Create an object; the Secret starts the pods."""
        thing = json.loads(text)
        if wrong := [FAULTS[self.fault]] if self.fault in FAULTS else mistakes(thing):
            raise SystemExit("\n".join(wrong))
        thing["metadata"]["uid"] = str(uuid.uuid4())
        (self.objects / f"{thing['kind']}.json").write_text(json.dumps(thing))
        if thing["kind"] == "JobSet":
            for job in thing["spec"]["replicatedJobs"]:
                for index in range(job["template"]["spec"]["completions"]):
                    self._pend(thing["metadata"]["name"], job, index)
        elif not self.fault:
            for file in self.pods():
                words = [
                    sys.executable,
                    "-m",
                    "tests.helpers.kubernetes_cluster",
                    str(self.folder),
                    "kubelet",
                    file.stem,
                ]
                null = subprocess.DEVNULL
                subprocess.Popen(
                    words, cwd=ROOT, stdin=null, stdout=null, stderr=null, start_new_session=True
                )
        return json.dumps(thing)

    def pods(self) -> list[Path]:
        """The files of the pods, in order."""
        return sorted(self.objects.glob("pod-*.json"))

    def delete(self) -> None:
        """Delete all objects, and kill the pods that run."""
        for pod in self.pods():
            self._stop(pod, signal.SIGKILL)
        for file in self.objects.iterdir():
            file.unlink(missing_ok=True)

    def _pend(self, name: str, job: dict[str, Any], index: int) -> None:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": job["name"],
        }
        notes = {"batch.kubernetes.io/job-completion-index": str(index)}
        called = f"{name}-{job['name']}-0-{index}-abcde"
        pod = {
            "metadata": {"name": called, "labels": labels, "annotations": notes},
            "spec": job["template"]["spec"],
        }
        status: dict[str, Any] = {"phase": "Pending"}
        if self.fault == "unschedulable":
            why = {
                "reason": "Unschedulable",
                "message": ("0/3 nodes are available: 3 Insufficient cpu."),
            }
            status["conditions"] = [{"type": "PodScheduled", "status": "False", **why}]
        elif self.fault in WAITS:
            reason, message = WAITS[self.fault]
            status["containerStatuses"] = [
                {"state": {"waiting": {"reason": reason, "message": message}}}
            ]
        (self.objects / f"pod-{job['name']}-{index}.json").write_text(
            json.dumps({**pod, "status": status})
        )

    # -- a kubelet

    def run(self, name: str) -> None:
        """Run one pod to its end. If it fails, the other pods are ended too, since its JobSet fails
        then.
        """
        file = self.objects / f"{name}.json"
        pod = json.loads(file.read_text())
        container = pod["spec"]["template"]["spec"]["containers"][0]
        index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        lines = json.loads((self.objects / "Secret.json").read_text())["stringData"]
        mounted = self.folder / f"mounted-{name}"
        mounted.mkdir(exist_ok=True)
        for item in pod["spec"]["template"]["spec"]["volumes"][0]["secret"]["items"]:
            (mounted / item["path"]).write_text(lines[item["key"]])
        variables = {"PATH": os.environ["PATH"], "HOME": "/root", "JOB_COMPLETION_INDEX": index}
        for each in container["env"]:
            variables[each["name"]] = expanded(each["value"], variables)
        command = [expanded(word, variables) for word in container["command"]]
        names = self.folder / "namespaces"
        where = names.read_text().split()[self.pods().index(file)] if names.exists() else ""
        enter = ["ip", "netns", "exec", where] if where else []
        words = [
            *enter,
            "unshare",
            "-m",
            "sh",
            "-c",
            INSIDE,
            str(mounted),
            container["volumeMounts"][0]["mountPath"],
        ]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*words, *command], env=variables, stdin=-3, stdout=log, stderr=log
            )
        self._write(file, {**pod, "pid": process.pid}, {"phase": "Running"}, {"running": {}})
        code = process.wait()
        said = (self.folder / f"{name}.log").read_text()[-2048:]
        reason = "Completed" if code == 0 else "OOMKilled" if code == -signal.SIGKILL else "Error"
        end = {"reason": reason, "exitCode": code if code >= 0 else 128 - code, "message": said}
        self._write(file, pod, {"phase": "Failed" if code else "Succeeded"}, {"terminated": end})
        for other in self.pods() if code else []:
            self._stop(other, signal.SIGTERM)

    def _write(
        self, file: Path, pod: dict[str, Any], status: dict[str, Any], state: dict[str, Any]
    ) -> None:
        if file.exists():
            whole = file.with_suffix(".new")
            whole.write_text(
                json.dumps({**pod, "status": {**status, "containerStatuses": [{"state": state}]}})
            )
            whole.rename(file)

    def _stop(self, file: Path, number: signal.Signals) -> None:
        with suppress(OSError, ValueError):
            if pid := json.loads(file.read_text()).get("pid"):
                os.kill(pid, number)


def main(folder: Path, words: list[str]) -> None:
    """Run one call of kubectl."""
    cluster = Cluster(folder)
    verb = next(word for word in words if not word.startswith("--"))
    with (folder / "calls").open("a") as calls:
        calls.write(f"{' '.join(words)}\n")
    if verb == "create":
        print(cluster.create(sys.stdin.read()))
    elif verb == "get":
        print(json.dumps({"items": [json.loads(pod.read_text()) for pod in cluster.pods()]}))
    elif verb == "delete":
        cluster.delete()
    elif verb == "kubelet":
        cluster.run(words[-1])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
